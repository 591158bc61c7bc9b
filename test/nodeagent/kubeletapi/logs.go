// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
)

func (h handler) logs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	options, err := logOptions(query, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	previous, _ := strconv.ParseBool(query.Get("previous"))
	log, err := h.pods.Log(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	controller := http.NewResponseController(w)
	_ = controller.Flush() // a client that follows the log expects headers at once
	_ = log.Read(r.Context(), flushWriter{w, controller}, options)
}

// logOptions parses the parameters of a request.
func logOptions(query url.Values, now time.Time) (logs.Options, error) {
	var options logs.Options
	number := func(name string) (*int64, error) {
		if !query.Has(name) {
			return nil, nil
		}
		value, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil || value < 0 {
			return nil, fmt.Errorf("%s is not a number: %q", name, query.Get(name))
		}
		return &value, nil
	}
	options.Follow, _ = strconv.ParseBool(query.Get("follow"))
	options.Timestamps, _ = strconv.ParseBool(query.Get("timestamps"))
	var err error
	if options.Tail, err = number("tailLines"); err != nil {
		return options, err
	}
	if options.Limit, err = number("limitBytes"); err != nil {
		return options, err
	}
	seconds, err := number("sinceSeconds")
	if err != nil {
		return options, err
	}
	if seconds != nil {
		options.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if options.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return options, fmt.Errorf("sinceTime: %w", err)
		}
	}
	return options, nil
}

// flushWriter flushes after every write.
type flushWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (f flushWriter) Write(data []byte) (int, error) {
	written, err := f.ResponseWriter.Write(data)
	if err != nil {
		return written, err
	}
	return written, f.controller.Flush()
}
