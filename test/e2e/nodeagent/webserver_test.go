// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// webServer is the name of the image that this program implements.
const webServer = "webserver"

// runWebServer serves on port 8080 until SIGTERM, and a while longer. /toggle?name=x
// makes /x fail, or succeed again. With an argument, it prints the response of that
// URL instead.
func runWebServer() int {
	linger := flag.Duration("linger", 0, "how long to go on after a request to end")
	flag.Parse()
	if flag.NArg() > 0 {
		return get(flag.Arg(0))
	}
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(answer)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		requests := make(chan os.Signal, 1)
		signal.Notify(requests, syscall.SIGTERM)
		<-requests
		fmt.Println("asked to end")
		time.Sleep(*linger)
		_ = server.Close()
	}()
	fmt.Println("serving")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Println(err)
		return 1
	}
	<-ended
	return 0
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/toggle" {
		file := "/tmp/broken-" + r.FormValue("name")
		if os.Remove(file) != nil {
			_ = os.WriteFile(file, nil, 0o644)
		}
		return
	}
	if _, err := os.Stat("/tmp/broken-" + r.URL.Path[1:]); err == nil {
		http.Error(w, "broken", http.StatusServiceUnavailable)
		return
	}
	host, _ := os.Hostname()
	fmt.Fprintln(w, host, r.RemoteAddr)
}

func get(url string) int {
	response, err := (&http.Client{Timeout: 2 * time.Second}).Get(url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer response.Body.Close()
	_, _ = io.Copy(os.Stdout, response.Body)
	return 0
}
