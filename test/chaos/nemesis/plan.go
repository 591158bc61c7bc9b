// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nemesis plans faults of a ClusterSet from a seed, and plays them.
package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what happens.
type Kind string

// Kinds of faults.
const (
	// Of the link between two clusters.
	Cut   Kind = "cut"
	Delay Kind = "delay"
	Loss  Kind = "loss"
	// The peer credential of the first cluster in the second has expired.
	ExpiredToken Kind = "expired-token"
	// The serving certificate of kube-apiserver or mcs-apiserver has expired.
	ExpiredCertificate Kind = "expired-certificate"
	// Of a process: killed with SIGKILL, paused with SIGSTOP, or restarted with SIGTERM.
	Kill    Kind = "kill"
	Pause   Kind = "pause"
	Restart Kind = "restart"
	// The wall clock of a process of mcs-apiserver or mcs-controller jumps, and back.
	ClockJump Kind = "clock-jump"
	// Of mcs-controller and of mcs-apiserver; ScaledDown means that there is no replica.
	LeaderChange  Kind = "leader-change"
	RollingUpdate Kind = "rolling-update"
	ScaledDown    Kind = "scaled-down"
	// Of etcd.
	FullDisk Kind = "full-disk"
	// A namespace is deleted and created again.
	NewNamespace Kind = "new-namespace"
)

// Programs whose processes fail.
const (
	etcd          = "etcd"
	kubeAPIServer = "kube-apiserver"
	mcsAPIServer  = "mcs-apiserver"
	mcsController = "mcs-controller"
)

// Fault is one fault.
type Fault struct {
	ID int
	// At is when it begins, after the begin of the plan, and Duration how long it lasts. Some
	// last as long as it takes to recover.
	At, Duration time.Duration
	Kind         Kind
	// Clusters are one cluster, or two: then the link between them fails.
	Clusters []string
	// OneWay means that packets of the first cluster to the second are concerned only.
	OneWay bool
	// Program is the program of a process, and Replica which one of several processes.
	Program string
	Replica int
	// By is how long packets are delayed, or how much a clock jumps, and Percent how many packets
	// are lost.
	By      time.Duration
	Percent int
}

func (f Fault) String() string {
	text := []string{fmt.Sprintf("%7.1fs  %-14s %s", f.At.Seconds(), f.Kind, strings.Join(f.Clusters, map[bool]string{true: " to ", false: " and "}[f.OneWay || f.Kind == ExpiredToken]))}
	if f.Program != "" {
		text = append(text, f.Program)
	}
	if ours(f.Program) && f.Kind != ExpiredCertificate {
		text = append(text, fmt.Sprintf("replica %d", f.Replica))
	}
	if f.By != 0 {
		text = append(text, "by "+f.By.String())
	}
	if f.Percent > 0 {
		text = append(text, fmt.Sprintf("%d%%", f.Percent))
	}
	if f.Duration > 0 {
		text = append(text, fmt.Sprintf("for %.1fs", f.Duration.Seconds()))
	}
	return strings.Join(text, ", ")
}

// where returns the cluster or the link that is concerned.
func (f Fault) where() string { return strings.Join(slices.Sorted(slices.Values(f.Clusters)), " ") }

// ours reports whether a program is part of mcs-apiserver.
func ours(program string) bool { return program == mcsAPIServer || program == mcsController }

// Cuts reports whether nothing crosses a link in at least one direction, and Loses whether
// packets are late or lost.
func (f Fault) Cuts() bool  { return f.Kind == Cut }
func (f Fault) Loses() bool { return f.Kind == Delay || f.Kind == Loss }

// rest is how long what failed is left alone afterwards, and long how long a plan must be for
// faults that are longer than the TTL.
const (
	rest = 15 * time.Second
	long = 150 * time.Second
)

// Plan returns faults of clusters for a time, in the order in which they begin. It depends on
// its arguments only. Faults of one link, and of one cluster, do not overlap.
func Plan(seed uint64, clusters []string, duration time.Duration) []Fault {
	p := planner{random: rand.New(rand.NewPCG(seed, 1)), clusters: clusters, duration: duration, busy: map[string]time.Duration{}} //nolint:gosec // not a secret
	var faults []Fault
	for at := p.between(2*time.Second, 8*time.Second); ; at += p.between(3*time.Second, 12*time.Second) {
		fault := p.fault(at)
		if fault.At+fault.Duration > duration {
			return faults
		}
		where := fault.where()
		if p.busy[where] > at {
			continue // chosen again, later
		}
		fault.ID = len(faults) + 1
		p.busy[where] = at + fault.Duration + rest
		faults = append(faults, fault)
	}
}

// planner chooses faults.
type planner struct {
	random   *rand.Rand
	clusters []string
	duration time.Duration
	// busy is until when a cluster or a link is not to fail again.
	busy map[string]time.Duration
}

func (p *planner) between(from, to time.Duration) time.Duration {
	return (from + time.Duration(p.random.Int64N(int64(to-from)))).Round(100 * time.Millisecond)
}

// kinds are all faults, as often as they are to be chosen.
var kinds = []Kind{
	Cut, Cut, Cut, Delay, Loss, Loss, ExpiredToken, ExpiredCertificate,
	Kill, Kill, Kill, Kill, Pause, Pause, Pause, Restart, Restart, ClockJump, ClockJump,
	LeaderChange, RollingUpdate, ScaledDown, FullDisk, NewNamespace,
}

// fault chooses a fault.
func (p *planner) fault(at time.Duration) Fault {
	first := p.random.IntN(len(p.clusters))
	second := (first + 1 + p.random.IntN(len(p.clusters)-1)) % len(p.clusters)
	f := Fault{At: at, Kind: kinds[p.random.IntN(len(kinds))], Duration: p.between(2*time.Second, 25*time.Second), Clusters: []string{p.clusters[first]}}
	switch f.Kind {
	case Cut, Delay, Loss, ExpiredToken:
		f.Clusters = append(f.Clusters, p.clusters[second])
		p.impair(&f)
	case Kill, Pause, Restart:
		f.Program = []string{etcd, kubeAPIServer, mcsAPIServer, mcsController}[p.random.IntN(4)]
		f.Replica = p.random.IntN(2)
		switch {
		case f.Kind == Restart || f.Kind == Kill && ours(f.Program):
			f.Duration = 0 // it is started again at once
		case f.Kind == Kill:
			p.prolong(&f)
		}
	case ClockJump:
		f.Program = []string{mcsAPIServer, mcsController}[p.random.IntN(2)]
		f.Replica = p.random.IntN(2)
		f.By = p.jump()
	case ExpiredCertificate:
		f.Program = []string{kubeAPIServer, mcsAPIServer}[p.random.IntN(2)]
	case ScaledDown:
		p.prolong(&f)
	case FullDisk:
		f.Program = etcd
		f.Duration = p.between(2*time.Second, 10*time.Second)
	case LeaderChange, RollingUpdate, NewNamespace:
		f.Duration = 0
	}
	return f
}

// prolong makes some faults of long plans longer than the TTL and the time that it takes to find
// out whether endpoints answer.
func (p *planner) prolong(f *Fault) {
	if p.duration >= long && p.random.IntN(4) == 0 {
		f.Duration = p.between(75*time.Second, 120*time.Second)
	}
}

// jump chooses how much a clock jumps: by seconds or by hours, ahead or behind.
func (p *planner) jump() time.Duration {
	by := p.between(time.Second, time.Minute)
	if p.random.IntN(2) == 0 {
		by = p.between(time.Minute, 2*time.Hour)
	}
	if p.random.IntN(2) == 0 {
		by = -by
	}
	return by.Round(time.Second)
}

// impair chooses how a link fails.
func (p *planner) impair(f *Fault) {
	switch f.Kind {
	case Cut:
		f.OneWay = p.random.IntN(3) == 0
		p.prolong(f)
	case ExpiredToken:
		p.prolong(f)
	case Delay:
		f.By = p.between(50*time.Millisecond, 500*time.Millisecond)
	case Loss:
		f.OneWay = p.random.IntN(2) == 0
		f.Percent = 5 + p.random.IntN(36)
	}
}
