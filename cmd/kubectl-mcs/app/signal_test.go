// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package app_test

import (
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R562: a terminal that is closed interrupts a command, so that it deletes what it created.
func TestHangupInterrupts(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // also if the tests run with nohup
	defer signal.Stop(heard)
	handler := knowing(clustertest.NewMember("west", clustersetv1alpha1.MemberStale))
	var once sync.Once
	_, errOut, code := commandtest.Servers{{Context: "east", Handler: func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
		})
		handler(w, r)
	}}}.Run(t, "status", "--wait", "--timeout", "30s")
	if code != 2 || !strings.Contains(errOut, "interrupted") {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
}

// R562: a reader that is gone, such as head, does not end the test before everything is deleted.
func TestBrokenPipesDoNotEndTheTest(t *testing.T) {
	signal.Reset(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	commandtest.Servers{{Context: "east", Handler: knowing()}}.Run(t, "test", "nowhere")
	if !signal.Ignored(syscall.SIGPIPE) {
		t.Error("a write to a pipe that nobody reads ends the process")
	}
}
