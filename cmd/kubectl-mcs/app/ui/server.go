// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
)

//go:embed assets
var assets embed.FS

const (
	doctorPath = "/api/doctor"
	// maxConnections limits how many connections are open at a time, of anyone on the machine.
	maxConnections = 64
	maxHeader      = 16 << 10
	maxBody        = 4 << 10
	headerTimeout  = 5 * time.Second
	idleTimeout    = time.Minute
	// maxDiagnoses limits how many diagnoses run at a time.
	maxDiagnoses = 2
	// heartbeat is how often pages are told that the connection is open.
	heartbeat = 5 * time.Second
)

// contentTypes are those of the files of the page.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// server answers the requests of pages.
type server struct {
	board *board
	// diagnose runs the doctor.
	diagnose func(ctx context.Context, question doctor.Question) (diagnosis.Report, error)
	contexts []string

	diagnoses chan struct{}
	// timeout is how long a page may take to receive changes.
	timeout time.Duration
}

func newServer(b *board, diagnose func(context.Context, doctor.Question) (diagnosis.Report, error)) *server {
	s := &server{board: b, diagnose: diagnose, diagnoses: make(chan struct{}, maxDiagnoses), timeout: answerTimeout}
	for _, v := range b.views {
		s.contexts = append(s.contexts, v.Context)
	}
	return s
}

// handler returns the handler of all requests that the guard admits.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/events", s.events)
	mux.HandleFunc("/api/service", s.service)
	mux.HandleFunc(doctorPath, s.doctor)
	mux.HandleFunc("/", asset)
	return mux
}

// serve serves the page until the context ends. It calls waiting if diagnoses have to end before it returns.
func (s *server) serve(ctx context.Context, listeners []net.Listener, handler http.Handler, waiting func()) error {
	defer s.drain(waiting)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		<-ctx.Done() // which ends all requests
		_ = server.Close()
	})
	open, ended := make(chan struct{}, maxConnections), make(chan error, len(listeners))
	for _, listener := range listeners {
		group.Go(func() { ended <- server.Serve(newLimitedListener(listener, open)) })
	}
	err := <-ended // and the others with it
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("failed to serve the page: %w", err)
}

// drain waits until all diagnoses have ended, and lets no other one begin. Those with a Pod delete it after
// an interrupt. That takes a few seconds at most, because their context has ended.
func (s *server) drain(waiting func()) {
	for range cap(s.diagnoses) {
		select {
		case s.diagnoses <- struct{}{}:
		default:
			waiting()
			s.diagnoses <- struct{}{}
			waiting = func() {}
		}
	}
}

// asset serves the files of the page.
func asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	content, err := assets.ReadFile("assets/" + name)
	if err != nil || strings.Contains(name, "/") {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	_, _ = w.Write(content) // the page is gone
}

// events streams everything that the page shows: first what there is, then what changes.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	reader := s.board.store.subscribe()
	if reader == nil {
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open already: close one of them", maxReaders))
		return
	}
	defer s.board.store.unsubscribe(reader)
	w.Header().Set("Content-Type", "application/x-ndjson")
	stream := &stream{out: w, control: http.NewResponseController(w), timeout: s.timeout}
	stream.send(map[string]any{"kind": "hello", "value": map[string]any{"version": componentversion.Get().GitVersion, "contexts": s.contexts, "now": time.Now()}})
	stream.changes(s.board.store.take(reader))
	stream.send(map[string]any{"kind": "snapshot"})
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for stream.flush() && sleep(r.Context(), pause) {
		select {
		case <-r.Context().Done():
			return
		case <-reader.changed:
			stream.changes(s.board.store.take(reader))
		case <-ticker.C:
			stream.send(map[string]any{"kind": "heartbeat", "value": map[string]any{"now": time.Now()}})
		}
	}
}

// stream sends lines of JSON, and ends when a page takes too long.
type stream struct {
	out     http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	err     error
}

func (s *stream) send(line any) {
	if s.err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // tests have no connection
		s.err = json.NewEncoder(s.out).Encode(line)
	}
}

func (s *stream) changes(changes []change) {
	for _, one := range changes {
		s.send(one)
	}
}

// flush reports whether the page received everything so far.
func (s *stream) flush() bool {
	if s.err == nil {
		s.err = s.control.Flush()
	}
	return s.err == nil
}

// subject is what a request is about.
type subject struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
}

// validate returns why a subject is wrong. Names are a part of requests to clusters.
func (s subject) validate() string {
	for field, value := range map[string]string{"namespace": s.Namespace, "service": s.Service} {
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			return fmt.Sprintf("%s %q is not valid: %s", field, value, strings.Join(problems, "; "))
		}
	}
	return ""
}

func subjectOf(r *http.Request) subject {
	query := r.URL.Query()
	return subject{Namespace: query.Get("namespace"), Service: query.Get("service")}
}

// service returns the details of a service.
func (s *server) service(w http.ResponseWriter, r *http.Request) {
	about := subjectOf(r)
	if problem := about.validate(); problem != "" {
		refuse(w, http.StatusBadRequest, problem)
		return
	}
	details, err := s.board.details(r.Context(), about.Namespace+"/"+about.Service)
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answerJSON(w, http.StatusOK, details)
}

// doctor returns what the doctor finds, about a service or the ClusterSet. With POST, a Pod connects to
// the service.
func (s *server) doctor(w http.ResponseWriter, r *http.Request) {
	about, problem := subjectOf(r), ""
	control := http.NewResponseController(w)
	if r.Method == http.MethodPost {
		_ = control.SetReadDeadline(time.Now().Add(answerTimeout))
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&about); err != nil {
			problem = "the request is not valid: " + err.Error()
		}
		_ = control.SetReadDeadline(time.Time{})
	}
	if problem == "" && (about != subject{} || r.Method == http.MethodPost) {
		problem = about.validate()
	}
	if problem != "" {
		refuse(w, http.StatusBadRequest, problem)
		return
	}
	select {
	case s.diagnoses <- struct{}{}:
		defer func() { <-s.diagnoses }()
	default:
		refuse(w, http.StatusTooManyRequests, "other diagnoses are not complete yet: try again in a moment")
		return
	}
	report, err := s.diagnose(r.Context(), doctor.Question{
		Context: s.contexts[0], Others: s.contexts[1:], Namespace: about.Namespace, Service: about.Service, Probe: r.Method == http.MethodPost,
	})
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	answerJSON(w, http.StatusOK, report)
}
