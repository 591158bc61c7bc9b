// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	runs        = 1000
	stepsPerRun = 100 // at least
)

// TestClustersAgreeWhateverHappens runs the model with random steps. While news get
// around in time no cluster ever allocates an address that is held for another
// service. However late they are, when they have got around and nobody has anything
// to do,
//   - no address belongs to two services,
//   - all exports of a service hold to one decision, which is in force, unless
//     the first one waits for a free address,
//   - addresses that nobody holds are known to be free.
//
// From then on nobody gives up a decision for as long as anybody holds to it,
// whatever anybody wants.
func TestClustersAgreeWhateverHappens(t *testing.T) {
	for name, rules := range map[string]rules{"news get around in time": {}, "news are late": {lateNews: true}} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var allocations, collisions int
			first := firstSeed(t)
			for seed := first; seed < first+runs; seed++ {
				setup, steps := random(seed, rules)
				m, err := play(setup, steps)
				if err != nil {
					steps, err = shrink(setup, steps, err)
					t.Fatalf("CLUSTERSETIP_SEED=%d breaks a property: %v\nsetup: %+v\nsteps:\n\t%s", seed, err, setup, list(steps))
				}
				allocations += m.allocations
				collisions += m.collisions
			}
			t.Logf("%d runs of %d steps in %v: %d allocations, %d of them of an address that another service held",
				runs, stepsPerRun, time.Since(start).Round(time.Millisecond), allocations, collisions)
			if allocations < runs || rules.lateNews && collisions == 0 && os.Getenv("CLUSTERSETIP_SEED") == "" {
				t.Error("the runs do not show much: there are too few allocations or collisions in them")
			}
		})
	}
}

// firstSeed is always the same, so that nobody is surprised by what others
// broke, unless CLUSTERSETIP_SEED names another one.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("CLUSTERSETIP_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// often is how often a random step is of some kind at most. Each run has other
// shares, so that in some of them news hardly get around, and in others nobody
// ever leaves.
var often = map[operation]int{
	export: 24, unexport: 20, wish: 4, enter: 6, leave: 3, restart: 3, deliver: 12, catchUp: 12, run: 32, settle: 4,
}

func random(seed uint64, rules rules) (setup, []step) {
	random := rand.New(rand.NewPCG(seed, 0))
	var operations []operation
	for _, do := range slices.Sorted(maps.Keys(often)) {
		operations = append(operations, slices.Repeat([]operation{do}, 1+random.IntN(often[do]))...)
	}
	s := setup{clusters: 2 + random.IntN(4), services: 1 + random.IntN(4), length: 32 - min(random.IntN(4), random.IntN(4), random.IntN(4)), dual: random.IntN(3) == 0, rules: rules}
	s.members = 2 + random.IntN(s.clusters-1)
	var steps []step
	add := func(next step) {
		// Much happens at the same time, and sometimes nothing for a while.
		next.after = max(0, random.IntN(10)-5)
		steps = append(steps, next)
	}
	for len(steps) < stepsPerRun {
		next := step{
			do: operations[random.IntN(len(operations))],
			a:  random.IntN(s.clusters), b: random.IntN(s.clusters), s: random.IntN(s.services), wants: random.IntN(10) > 0,
		}
		add(next)
		// What a cluster does mostly takes effect soon, or hardly anything would.
		if next.do == unexport && random.IntN(3) > 0 {
			add(step{do: export, a: next.a, s: next.s + 1, wants: true})
		}
		if next.do == unexport && random.IntN(3) > 0 { // another may not have heard of it
			add(step{do: export, a: next.b, s: next.s, wants: true})
			add(step{do: run, a: next.b})
		}
		if next.do == export && random.IntN(3) > 0 {
			add(step{do: catchUp, a: next.a})
		}
		if (next.do == export || next.do == unexport) && random.IntN(3) > 0 {
			add(step{do: run, a: next.a})
		}
	}
	return s, steps
}

// play runs the steps, and settles in the end.
func play(s setup, steps []step) (*model, error) {
	m := newModel(s)
	for i, step := range append(slices.Clone(steps), step{do: settle}) {
		if err := m.do(step); err != nil {
			return m, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return m, nil
}

// shrink leaves out steps for as long as something breaks.
func shrink(s setup, steps []step, err error) ([]step, error) {
	for length := len(steps); length > 0; length /= 2 {
		for i := 0; i+length <= len(steps); {
			fewer := slices.Delete(slices.Clone(steps), i, i+length)
			if _, broken := play(s, fewer); broken != nil {
				steps, err = fewer, broken
			} else {
				i++
			}
		}
	}
	return steps, err
}

func list(steps []step) string {
	var lines []string
	for _, step := range steps {
		lines = append(lines, step.String())
	}
	return strings.Join(lines, "\n\t")
}

// settle delivers all messages and runs all controllers until nothing changes, nor
// when all quarantines have ended, and checks what must be true then.
func (m *model) settle() error {
	ended := false
	for range 1000 {
		changed, err := m.round()
		switch {
		case err != nil:
			return err
		case changed:
			ended = false
		case ended:
			return m.check()
		default:
			m.now, ended = m.now.Add(PropagationDelay), true
		}
	}
	return errors.New("the clusters do not settle")
}

// round delivers everything and runs all controllers once.
func (m *model) round() (changed bool, err error) {
	for _, c := range m.members() {
		changed = m.receiveAll(c) || changed
	}
	for _, c := range m.members() {
		m.pass()
		ran, err := m.run(c)
		if err != nil {
			return false, err
		}
		changed = changed || ran
	}
	m.forgetUnheld()
	return changed, nil
}

// check checks a state in which everybody knows everything.
func (m *model) check() error {
	exports, owner := map[string][]Export{}, map[netip.Addr]string{}
	for _, c := range m.members() {
		for key, own := range c.exports {
			exports[key] = append(exports[key], own)
			for _, addr := range addresses(own.Decision) {
				if other, held := owner[addr]; held && other != key {
					return fmt.Errorf("%s and %s hold %s", other, key, addr)
				}
				owner[addr] = key
			}
		}
	}
	for _, c := range m.members() {
		if len(c.held) != len(owner) {
			return fmt.Errorf("%s takes %v for used, but only %v are: the others can not be allocated again", c.id, c.held, owner)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(exports)) {
		if err := m.checkService(key, exports[key], owner); err != nil {
			return err
		}
		m.agreed[key] = InForce(exports[key])
	}
	return nil
}

func (m *model) checkService(key string, exports []Export, owner map[netip.Addr]string) error {
	inForce := InForce(exports)
	if agreed := m.agreed[key]; agreed != nil && !Equal(agreed, inForce) {
		return fmt.Errorf("%v was agreed on for %s, and now it is %v", agreed, key, inForce)
	}
	for _, export := range exports {
		if !Equal(export.Decision, inForce) {
			return fmt.Errorf("%s holds to %v for %s, but %v is in force", export.Cluster, export.Decision, key, inForce)
		}
	}
	if inForce != nil {
		return nil
	}
	// The only reason for no decision is that there is no address to decide for.
	first, _ := firstOf(exports)
	i := slices.IndexFunc(m.clusters, func(c *cluster) bool { return c.id == first.Cluster })
	used := map[netip.Addr]bool{}
	for addr := range owner {
		used[addr] = true
	}
	if ips, err := m.pool(m.clusters[i]).Allocate(key, nil, in(used)); err == nil {
		return fmt.Errorf("nothing is decided for %s, although %s could give it %v", key, first.Cluster, ips)
	}
	return nil
}

// forgetUnheld forgets the agreed decisions that nobody holds to anymore.
func (m *model) forgetUnheld() {
	for key, agreed := range m.agreed {
		if !slices.ContainsFunc(m.members(), func(c *cluster) bool { return agreed != nil && Equal(c.exports[key].Decision, agreed) }) {
			delete(m.agreed, key)
		}
	}
}

// heldByOther finds a member that holds an address of a decision for another service.
func (m *model) heldByOther(key string, decision *Decision) (string, bool) {
	for _, c := range m.members() {
		for other, own := range c.exports {
			for _, addr := range addresses(own.Decision) {
				if other != key && slices.Contains(addresses(decision), addr) {
					return fmt.Sprintf("%s holds %s for %s", c.id, addr, other), true
				}
			}
		}
	}
	return "", false
}
