// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strconv"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// consecutive visits three events of the first watching client that follow each other, if the
// second one has them as well.
func (b *testbed) consecutive(visit func(before, event, after history.Entry, rest []history.Entry) bool) bool {
	for _, cluster := range b.clusters {
		first, other := b.watching(cluster, history.Imports, "1"), map[string]bool{}
		for _, entry := range b.watching(cluster, history.Imports, "2") {
			if entry.Watch.Object != nil {
				other[entry.Watch.ResourceVersion] = true
			}
		}
		for i := 1; i+1 < len(first); i++ {
			three := first[i-1 : i+2]
			if !slices.ContainsFunc(three, func(e history.Entry) bool { return e.Watch.Object == nil || !other[e.Watch.ResourceVersion] }) &&
				b.sameStream(cluster, three) && visit(three[0], three[1], three[2], first[i+1:]) {
				return true
			}
		}
	}
	return false
}

// sameStream reports whether the second client saw events in one watch.
func (b *testbed) sameStream(cluster string, events []history.Entry) bool {
	for _, entry := range b.watching(cluster, history.Imports, "2") {
		if entry.Watch.Type == history.Listed && entry.At.After(events[0].At.Add(-time.Second)) && entry.At.Before(events[len(events)-1].At.Add(time.Second)) {
			return false
		}
	}
	return true
}

func dropModified(b *testbed) bool {
	return b.consecutive(func(_, event, _ history.Entry, rest []history.Entry) bool {
		again := slices.ContainsFunc(rest, func(e history.Entry) bool {
			return e.Watch.Object != nil && keyOf(*e.Watch.Object) == keyOf(*event.Watch.Object)
		})
		if event.Watch.Type != history.Modified || !again {
			return false
		}
		b.remove(event.Watch)
		return true
	})
}

func dropAdded(b *testbed) bool {
	return b.consecutive(func(_, event, _ history.Entry, rest []history.Entry) bool {
		again := slices.IndexFunc(rest, func(e history.Entry) bool {
			return e.Watch.Type == history.Listed || e.Watch.Object != nil && keyOf(*e.Watch.Object) == keyOf(*event.Watch.Object)
		})
		if event.Watch.Type != history.Added || again < 0 || rest[again].Watch.Object == nil || rest[again].At.Sub(event.At) > 2*time.Second {
			return false
		}
		b.remove(event.Watch)
		return true
	})
}

func withdrawEndpoint(b *testbed) bool {
	e, from, ok := b.lasting(5 * time.Second)
	return ok && b.hide(e, from.Add(time.Second), from.Add(1100*time.Millisecond))
}

func omitFromList(b *testbed) bool {
	return b.imports(func(cluster string, of history.Service) bool {
		seen := false
		for _, entry := range b.watching(cluster, history.Imports, "reader") {
			i := slices.IndexFunc(entry.Watch.Items, func(object history.Object) bool { return keyOf(object) == (key{of.Namespace, of.Name}) })
			if i < 0 {
				continue
			}
			if seen && b.expectImport(cluster, of).must.Contains(entry.At) {
				entry.Watch.Items = slices.Delete(entry.Watch.Items, i, i+1)
				return true
			}
			seen = true
		}
		return false
	})
}

func answerNotFound(b *testbed) bool {
	for _, entry := range b.entries {
		if l := entry.Lookup; l != nil && len(l.Answers) > 0 && b.expectImport(l.Cluster, l.Service).must.Contains(entry.At) && b.someEndpoint(l.Cluster, l.Service, entry.At) {
			l.Answers, l.NotFound = nil, true
			return true
		}
	}
	return false
}

func refuseConnection(b *testbed) bool {
	for _, entry := range b.entries {
		if c := entry.Connection; c != nil && c.BackendCluster != "" && b.someEndpoint(c.Cluster, c.Service, c.Began) {
			c.BackendCluster, c.BackendAddress, c.Refused, c.Error = "", "", true, "connection refused"
			return true
		}
	}
	return false
}

func keepEndpoint(b *testbed) bool {
	const tooLong = 8 * time.Second
	for _, e := range b.endpoints() {
		for _, client := range b.clientsOf(e.cluster, history.Slices) {
			for _, span := range client.present(e.subject) {
				to := span.To.Add(tooLong)
				if client.name != "1" || !b.source.Endpoint(e.source, e.Service, e.address).False.Covers(span.To, to) || !b.source.Exported(e.source, e.Service).True.Covers(span.To, to) {
					continue
				}
				if b.keep(e, span.To, to) {
					return true
				}
			}
		}
	}
	return false
}

// keep lets all clients of a cluster see an endpoint for a time after it vanished.
func (b *testbed) keep(e endpoint, from, to time.Time) bool {
	deleted := false
	from = from.Add(-time.Millisecond)
	for _, entry := range b.entries {
		w := entry.Watch
		if w != nil && w.Cluster == e.cluster && w.Resource == history.Slices && !entry.At.Before(from) && entry.At.Before(to) &&
			(w.Type == history.Closed && w.Client != "reader" || w.Object != nil && w.Type != history.Modified && keyOf(*w.Object) == e.slice()) {
			deleted = true
		}
	}
	if deleted || !b.modify(e.cluster, history.Slices, to, 2, e.slice(), e.without) {
		return false
	}
	b.objects(e.cluster, history.Slices, from, to, func(object *history.Object) {
		if keyOf(*object) == e.slice() {
			e.with(object)
		}
	})
	return true
}

func keepImport(b *testbed) bool {
	const tooLong = 8 * time.Second
	return b.imports(func(cluster string, of history.Service) bool {
		for _, entry := range b.watching(cluster, history.Imports, "1") {
			w, to := entry.Watch, entry.At.Add(tooLong)
			if w.Type != history.Deleted || keyOf(*w.Object) != (key{of.Namespace, of.Name}) || !b.expectImport(cluster, of).mustNot.Covers(to.Add(-time.Second), to) {
				continue
			}
			quiet := true
			var moved []int
			version := 0
			for i, other := range b.entries {
				o := other.Watch
				if o == nil || o.Cluster != cluster || o.Resource != history.Imports || o.Client == "reader" || other.At.Before(entry.At.Add(-time.Second)) || !other.At.Before(to) {
					continue
				}
				switch {
				case o.Type == history.Listed || o.Type == history.Closed || o.Type == history.Resumed:
					quiet = false
				case o.ResourceVersion == w.ResourceVersion && o.Type == history.Deleted:
					moved = append(moved, i)
				case o.Object != nil && keyOf(*o.Object) == keyOf(*w.Object) && other.At.After(entry.At):
					quiet = false
				}
				if number, err := strconv.Atoi(o.ResourceVersion); err == nil {
					version = max(version, number)
				}
			}
			if !quiet || len(moved) != 2 {
				continue
			}
			for _, i := range moved {
				b.entries[i].At, b.entries[i].Watch.ResourceVersion = to, strconv.Itoa(version+3)
				b.advance(cluster, history.Imports, b.entries[i].Watch.Client, to, version+3)
			}
			return true
		}
		return false
	})
}

func connectToFormer(b *testbed) bool {
	for _, entry := range b.entries {
		c := entry.Connection
		if c == nil || c.BackendCluster == "" {
			continue
		}
		for _, address := range b.source.Addresses(c.BackendCluster, c.Service) {
			if b.visible.MustNot(c.Cluster, c.BackendCluster, b.source.Endpoint(c.BackendCluster, c.Service, address)).Contains(c.Began) {
				c.BackendAddress = address
				return true
			}
		}
	}
	return false
}

func reuseUID(b *testbed) bool {
	return b.imports(func(cluster string, of history.Service) bool {
		uids := b.uids(cluster, of)
		if len(uids) < 2 {
			return false
		}
		b.replaceUID(cluster, b.entries[0].At, uids[1], uids[0])
		return true
	})
}

func oneUIDForTwo(b *testbed) bool {
	first := ""
	return b.imports(func(cluster string, of history.Service) bool {
		uids := b.uids(cluster, of)
		if len(uids) == 0 || cluster != b.clusters[0] {
			return false
		}
		if first == "" {
			first = uids[0]
			return false
		}
		b.replaceUID(cluster, b.entries[0].At, uids[0], first)
		return true
	})
}

func changeUID(b *testbed) bool {
	return b.imports(func(cluster string, of history.Service) bool {
		for _, span := range b.expectImport(cluster, of).must {
			at := span.From.Add(5 * time.Second)
			view, open := b.viewAt(cluster, history.Imports, "1", at)
			if span.Duration() > 15*time.Second && open && span.To.Before(b.end()) {
				b.replaceUID(cluster, at, view[key{of.Namespace, of.Name}].UID, "other")
				return true
			}
		}
		return false
	})
}

func versionBack(b *testbed) bool {
	return b.consecutive(func(_, event, _ history.Entry, _ []history.Entry) bool {
		old := event.Watch.ResourceVersion
		number, err := strconv.Atoi(old)
		if err != nil {
			return false
		}
		for _, entry := range b.entries {
			if w := entry.Watch; w != nil && w.Cluster == event.Watch.Cluster && w.Resource == history.Imports && w.Object != nil && w.ResourceVersion == old {
				w.ResourceVersion = strconv.Itoa(number - 15)
			}
		}
		return true
	})
}

func bookmarkAhead(b *testbed) bool {
	for _, cluster := range b.clusters {
		lines := b.watching(cluster, history.Slices, "2")
		for i := range len(lines) - 1 {
			if lines[i].Watch.Type == history.Bookmark && lines[i+1].Watch.Object != nil {
				number, err := strconv.Atoi(lines[i+1].Watch.ResourceVersion)
				lines[i].Watch.ResourceVersion = strconv.Itoa(number + 5)
				return err == nil
			}
		}
	}
	return false
}

// export lets a cluster export a service that nobody sees, from one time on.
func (b *testbed) export(of history.Service, at time.Time) {
	for i, change := range []history.Change{
		{Operation: history.CreateService, Spec: &history.Spec{Ports: []history.Port{{Name: "http", Protocol: "TCP", Port: 80}}}},
		{Operation: history.Export},
	} {
		b.changed(-1-i, of, at.Add(time.Duration(i)*10*time.Millisecond), change)
	}
}

func (b *testbed) changed(id int, of history.Service, at time.Time, change history.Change) {
	change.ID, change.Cluster, change.Service = id, "east", of
	b.insert(at, history.Entry{Invoke: &change})
	b.insert(at.Add(time.Millisecond), history.Entry{Complete: &history.Completion{ID: id, Outcome: history.OK}})
}

func loseExport(b *testbed) bool {
	b.export(history.Service{Namespace: "shop", Name: "lost"}, b.entries[0].At.Add(time.Minute))
	return true
}

func neverImport(b *testbed) bool {
	of, at := history.Service{Namespace: "shop", Name: "ignored"}, b.entries[0].At.Add(time.Minute)
	b.export(of, at)
	b.changed(-3, of, at.Add(30*time.Second), history.Change{Operation: history.Unexport})
	b.changed(-4, of, at.Add(31*time.Second), history.Change{Operation: history.DeleteService})
	return true
}

func oneIPForTwo(b *testbed) bool {
	for _, entry := range b.entries {
		w := entry.Watch
		if w == nil || w.Resource != history.Imports || w.Type != history.Listed {
			continue
		}
		i := slices.IndexFunc(w.Items, func(o history.Object) bool { return len(o.Import.IPs) > 0 })
		j := slices.IndexFunc(w.Items, func(o history.Object) bool { return len(o.Import.IPs) > 0 && keyOf(o) != keyOf(w.Items[max(i, 0)]) })
		if i < 0 || j < 0 || w.Client == "reader" {
			continue
		}
		taken, instead := w.Items[i].Import.IPs[0], w.Items[j].Import.IPs[0]
		b.objects(w.Cluster, history.Imports, b.entries[0].At, b.end(), func(o *history.Object) {
			if o.Import != nil && slices.Contains(o.Import.IPs, instead) {
				o.Import.IPs = []string{taken}
			}
		})
		for _, other := range b.entries {
			if l := other.Lookup; l != nil && l.Cluster == w.Cluster && slices.Contains(l.Answers, instead) {
				l.Answers = []string{taken}
			}
		}
		return true
	}
	return false
}

// finally changes an import in a cluster shortly before the end.
func (b *testbed) finally(change func(cluster string, of history.Service, exports []model.Export, merged *history.Import) bool) bool {
	end := finalState(b.entries)
	return b.imports(func(cluster string, of history.Service) bool {
		done := false
		ok := b.modify(cluster, history.Imports, b.end().Add(-10*time.Second), 4, key{of.Namespace, of.Name}, func(object *history.Object) {
			changed := *object.Import
			object.Import = &changed
			done = change(cluster, of, end.exports[of], object.Import)
		})
		return ok && done
	})
}

func wrongWinner(b *testbed) bool {
	return b.finally(func(_ string, _ history.Service, exports []model.Export, merged *history.Import) bool {
		for _, export := range exports {
			if export.Headless == merged.Headless && model.Canonical(history.Import{Spec: export.Spec}).SessionAffinity != model.Canonical(*merged).SessionAffinity {
				merged.SessionAffinity = export.SessionAffinity
				return true
			}
		}
		return false
	})
}

func missingCluster(b *testbed) bool {
	return b.finally(func(_ string, _ history.Service, exports []model.Export, merged *history.Import) bool {
		if len(exports) < 2 {
			return false
		}
		merged.Clusters = merged.Clusters[1:]
		return true
	})
}

func wrongPort(b *testbed) bool {
	return b.finally(func(_ string, _ history.Service, _ []model.Export, merged *history.Import) bool {
		merged.Ports = append(slices.Clone(merged.Ports), history.Port{Name: "old", Protocol: "TCP", Port: 99})
		return true
	})
}

func wrongAnswer(b *testbed) bool {
	for _, entry := range b.entries {
		if l := entry.Lookup; l != nil && len(l.Answers) > 0 && b.watched(l.Cluster, entry.At) {
			l.Answers = []string{"192.0.2.1"}
			return true
		}
	}
	return false
}
