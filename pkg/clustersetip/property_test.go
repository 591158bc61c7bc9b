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
	runs        = 500
	stepsPerRun = 100 // at least
)

// TestClustersAgree runs the model with random steps. While messages arrive within the
// propagation delay, no cluster allocates an address that another service holds, and once
// all have arrived and no controller has anything to do,
//   - no address belongs to two services,
//   - all exports of a service have the decision in force, and all clusters serve it,
//     unless the founding export waits for an address,
//   - addresses that no service holds are known to be available.
//
// From then on no cluster gives up a decision for as long as an export has it, whatever
// the exports request. That holds even if messages are late, and whatever decisions a
// hostile cluster makes up: it does not change the address of a service that it did not
// decide.
func TestClustersAgree(t *testing.T) {
	for name, rules := range map[string]rules{"within the propagation delay": {}, "delayed": {delayed: true}, "with a hostile cluster": {hostile: true}} { // R244
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var allocations, collisions, contradictions int
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
				contradictions += m.contradictions
			}
			t.Logf("%d runs of %d steps in %v: %d allocations, %d of them of an address that another service held; %d decisions that were agreed on were contradicted",
				runs, stepsPerRun, time.Since(start).Round(time.Millisecond), allocations, collisions, contradictions)
			if os.Getenv("CLUSTERSETIP_SEED") == "" && (allocations < runs || rules.delayed && collisions == 0 || rules.hostile && contradictions < runs/2) {
				t.Error("the runs have too few allocations, collisions or contradictions")
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
	s := setup{clusters: 2 + random.IntN(4), services: 1 + random.IntN(4), length: 32 - min(random.IntN(4), random.IntN(4), random.IntN(4)), dual: random.IntN(3) == 0, rules: rules, punctual: !rules.delayed, disagree: rules.delayed || rules.hostile}
	s.members = 2 + random.IntN(s.clusters-1)
	if rules.hostile {
		s.clusters, s.members = s.clusters+1, s.clusters+1
		operations = append(operations, slices.Repeat([]operation{forge}, 1+random.IntN(30))...)
	}
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
		if next.do == forge {
			next.a, next.forged = s.clusters-1, forgery(random, s)
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

// forgery returns a decision of any age, said to be made by any cluster, for any address.
func forgery(random *rand.Rand, s setup) *Decision {
	var ips []string
	if cidr := random.IntN(s.clusters + 1); cidr < s.clusters {
		ips = append(ips, netip.AddrFrom4([4]byte{243, 1, byte(cidr), byte(random.IntN(1 << (32 - s.length)))}).String())
	}
	return NewDecision(fmt.Sprintf("c%d", random.IntN(s.clusters+1)), ips, time.Unix(1000+random.Int64N(500)-400, 0))
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
			m.now, ended = m.now.Add(concurrency), true
		}
	}
	return errors.New("the clusters do not settle")
}

// round delivers all messages and runs all controllers once.
func (m *model) round() (changed bool, err error) {
	for _, c := range m.members() {
		changed = m.receiveAll(c) || changed
	}
	for _, c := range m.honest() {
		due, err := m.pass()
		if err != nil {
			return false, err
		}
		ran, err := m.run(c)
		if err != nil {
			return false, err
		}
		changed = changed || due || ran
	}
	m.forgetUnheld()
	return changed, nil
}

// check checks the properties of a state in which all clusters know everything.
func (m *model) check() error {
	exports, owner := map[string][]Export{}, map[netip.Addr]string{}
	for _, c := range m.honest() {
		for key, own := range c.exports {
			exports[key] = append(exports[key], own)
			for _, addr := range addresses(own.Decision) {
				if other, held := owner[addr]; held && other != key && !m.disagree {
					return fmt.Errorf("%s and %s hold %s", other, key, addr)
				}
				owner[addr] = key
			}
		}
	}
	for _, c := range m.honest() {
		if len(c.held) != len(owner) && !m.rules.hostile {
			return fmt.Errorf("%s has %v as used, but only %v are: the others cannot be allocated again", c.id, c.held, owner)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(exports)) {
		if !m.disagree {
			if err := m.checkService(key, exports[key], owner); err != nil {
				return err
			}
		}
		if agreed := agreement(exports[key]); agreed != nil && slices.ContainsFunc(m.made, func(made *Decision) bool { return Equal(made, agreed) }) {
			if !Equal(m.agreed[key], agreed) {
				m.agreedAt[key] = m.now
			}
			m.agreed[key] = agreed
		}
	}
	return nil
}

// agreement returns the decision that all exports have, nil if there is none.
func agreement(exports []Export) *Decision {
	first := exports[0].Decision
	if slices.ContainsFunc(exports, func(export Export) bool { return !Equal(export.Decision, first) }) {
		return nil
	}
	return first
}

func (m *model) checkService(key string, exports []Export, owner map[netip.Addr]string) error {
	inForce := InForce(Local{Now: m.now}, exports)
	if agreed := m.agreed[key]; agreed != nil && !alike(agreed, inForce) {
		return fmt.Errorf("all clusters had agreed on %v for %s, which is now %v", agreed, key, inForce)
	}
	for _, export := range exports {
		if !alike(export.Decision, inForce) {
			return fmt.Errorf("%s has %v for %s, but %v is in force", export.Cluster, export.Decision, key, inForce)
		}
	}
	for _, c := range m.honest() {
		if served := c.served[key]; !alike(served, inForce) {
			return fmt.Errorf("%s serves %v for %s, but %v is in force", c.id, served, key, inForce)
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

// alike reports whether two decisions are the same but for their time. Either may be nil.
func alike(a, b *Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.DecidedBy == b.DecidedBy && slices.Equal(a.IPs, b.IPs)
}

// forgetUnheld removes the agreed decisions that no export has any longer.
func (m *model) forgetUnheld() {
	for key, agreed := range m.agreed {
		if !slices.ContainsFunc(m.honest(), func(c *cluster) bool { return agreed != nil && Equal(c.exports[key].Decision, agreed) }) {
			delete(m.agreed, key)
		}
	}
}

// heldByOther describes a member that holds an address of a decision for another service.
func (m *model) heldByOther(key string, decision *Decision) (string, bool) {
	for _, c := range m.honest() {
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
