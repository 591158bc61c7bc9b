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

// TestClustersAgree runs the model with random steps. While messages arrive within the
// propagation delay, no cluster allocates an address that another service holds. However
// late they are, once all have arrived and no controller has anything to do,
//   - no address belongs to two services,
//   - all exports of a service have the decision in force, unless the founding export
//     waits for an address,
//   - addresses that no service holds are known to be available.
//
// From then on no cluster gives up a decision for as long as an export has it, whatever
// the exports request.
func TestClustersAgree(t *testing.T) {
	for name, rules := range map[string]rules{"within the propagation delay": {}, "delayed": {delayed: true}} {
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
			if allocations < runs || rules.delayed && collisions == 0 && os.Getenv("CLUSTERSETIP_SEED") == "" {
				t.Error("the runs have too few allocations or collisions")
			}
		})
	}
}

// firstSeed returns the value of CLUSTERSETIP_SEED, or a fixed seed, so that runs are
// reproducible.
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

// maxWeights are the maximum weights of random steps. The weights differ between runs, so
// that in some of them hardly any message arrives, and in others no cluster ever leaves.
var maxWeights = map[operation]int{
	export: 24, unexport: 20, request: 4, enter: 6, leave: 3, restart: 3, deliver: 12, catchUp: 12, run: 32, settle: 4,
}

func random(seed uint64, rules rules) (setup, []step) {
	random := rand.New(rand.NewPCG(seed, 0))
	var operations []operation
	for _, do := range slices.Sorted(maps.Keys(maxWeights)) {
		operations = append(operations, slices.Repeat([]operation{do}, 1+random.IntN(maxWeights[do]))...)
	}
	s := setup{clusters: 2 + random.IntN(4), services: 1 + random.IntN(4), length: 32 - min(random.IntN(4), random.IntN(4), random.IntN(4)), dual: random.IntN(3) == 0, rules: rules}
	s.members = 2 + random.IntN(s.clusters-1)
	var steps []step
	add := func(next step) {
		// Many steps happen at the same time, with pauses in between.
		next.after = max(0, random.IntN(10)-5)
		steps = append(steps, next)
	}
	for len(steps) < stepsPerRun {
		next := step{
			do: operations[random.IntN(len(operations))],
			a:  random.IntN(s.clusters), b: random.IntN(s.clusters), s: random.IntN(s.services), wants: random.IntN(10) > 0,
		}
		add(next)
		// Most steps take effect soon, or hardly any would.
		if next.do == unexport && random.IntN(3) > 0 {
			add(step{do: export, a: next.a, s: next.s + 1, wants: true})
		}
		if next.do == unexport && random.IntN(3) > 0 { // another cluster may not have seen it
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

// play runs the steps, and settles at the end.
func play(s setup, steps []step) (*model, error) {
	m := newModel(s)
	for i, step := range append(slices.Clone(steps), step{do: settle}) {
		if err := m.do(step); err != nil {
			return m, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return m, nil
}

// shrink removes steps as long as a property breaks.
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

// settle delivers all messages and runs all controllers until nothing changes, even after
// all quarantines have expired, and then checks the properties.
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

// round delivers all messages and runs all controllers once.
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

// check checks the properties of a state in which all clusters know everything.
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
			return fmt.Errorf("%s has %v as used, but only %v are: the others cannot be allocated again", c.id, c.held, owner)
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
		return fmt.Errorf("all clusters had agreed on %v for %s, which is now %v", agreed, key, inForce)
	}
	for _, export := range exports {
		if !Equal(export.Decision, inForce) {
			return fmt.Errorf("%s has %v for %s, but %v is in force", export.Cluster, export.Decision, key, inForce)
		}
	}
	if inForce != nil {
		return nil
	}
	// The only reason for no decision is that no address is available.
	first, _ := founding(exports)
	i := slices.IndexFunc(m.clusters, func(c *cluster) bool { return c.id == first.Cluster })
	used := map[netip.Addr]bool{}
	for addr := range owner {
		used[addr] = true
	}
	if ips, err := m.pool(m.clusters[i]).Allocate(key, nil, in(used)); err == nil {
		return fmt.Errorf("%s is undecided although %s could allocate %v", key, first.Cluster, ips)
	}
	return nil
}

// forgetUnheld removes the agreed decisions that no export has any longer.
func (m *model) forgetUnheld() {
	for key, agreed := range m.agreed {
		if !slices.ContainsFunc(m.members(), func(c *cluster) bool { return agreed != nil && Equal(c.exports[key].Decision, agreed) }) {
			delete(m.agreed, key)
		}
	}
}

// heldByOther describes a member that holds an address of a decision for another service.
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
