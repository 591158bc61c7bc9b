// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command run starts one Kubernetes control plane with our API registered,
// shows the API with kubectl, and, when somebody sits at the terminal, opens a
// shell in which kubectl talks to it. Everything ends with that shell.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/mcs-apiserver/mcs-apiserver/test/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/netns"
)

// session is what a newcomer would type.
var session = []string{
	"kubectl api-resources --api-group=multicluster.x-k8s.io",
	"kubectl create namespace shop",
	"kubectl create service clusterip web -n shop --tcp=80",
	"kubectl apply -f artifacts/examples/serviceexport.yaml",
	"kubectl get serviceexports -n shop",
	"kubectl get serviceexports.multicluster.k8s.io -n shop -o yaml",
	"kubectl explain serviceexports.spec",
	"kubectl apply -f artifacts/examples/clusterclaim.yaml",
	"kubectl get clusterclaims",
	"kubectl get serviceimports -A",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	if err := netns.Enter(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".local", "run")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	started := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "run: %4.1f s  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	plane, err := controlplane.Start(ctx, controlplane.Config{Bin: filepath.Join(root, "bin", "kubernetes"), Dir: dir, Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	installed, err := installation.Install(ctx, installation.Config{Plane: plane, Root: root, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, installed.Stop()) }()
	progress("the API is available; logs are in %s", dir)

	env := append(os.Environ(), "KUBECONFIG="+plane.AdminKubeconfig(), "PATH="+plane.Bin+":"+os.Getenv("PATH"))
	for _, line := range session {
		if err := show(ctx, env, line); err != nil {
			return err
		}
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return shell(ctx, env)
}

// show prints a command and runs it.
func show(ctx context.Context, env []string, line string) error {
	fmt.Printf("\n$ %s\n", line)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}

func shell(ctx context.Context, env []string) error {
	program := os.Getenv("SHELL")
	if program == "" {
		program = "sh"
	}
	fmt.Printf("\nThis is a shell in which kubectl talks to that control plane. Leave it to stop everything.\n")
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	// A shell that ends with the status of its last command has not failed.
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("%s: %w", strings.TrimSpace(program), err)
	}
	return nil
}
