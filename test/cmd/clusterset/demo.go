// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// steps are the commands that the demo runs: a Service of one cluster is
// exported and used in the other.
var steps = []string{
	"kubectl mcs join --clusterset demo east west --id east=east --id west=west",
	"kubectl --context east apply -f artifacts/examples/demo.yaml",
	"kubectl --context east rollout status deployment/web -n demo --timeout=60s",
	"kubectl --context east get pods -n demo -o wide",
	"kubectl --context east exec -n demo deployment/web -- curl -sS http://web.demo.svc.cluster.local",
	"kubectl --context east wait --for=condition=Ready serviceexport/web -n demo --timeout=60s",
	"kubectl --context east get serviceexports -n demo",
	"kubectl --context west apply -f artifacts/examples/visitor.yaml",
	"kubectl --context west wait --for=create serviceimport/web -n demo --timeout=60s",
	"kubectl --context west wait --for=condition=Ready serviceimport/web pod/visitor -n demo --timeout=60s",
	"kubectl --context west get serviceimports -n demo",
	"kubectl mcs status west",
	"kubectl --context west exec -n demo visitor -- dig +short web.demo.svc.clusterset.local",
	"kubectl --context west exec -n demo visitor -- curl -sS --retry 5 --retry-connrefused http://web.demo.svc.clusterset.local",
}

// suggestions are commands that a newcomer may try next.
var suggestions = []string{
	"kubectl --context west api-resources --api-group=multicluster.x-k8s.io",
	"kubectl --context west get serviceimport web -n demo -o yaml",
	"kubectl --context west get services,endpointslices -n demo",
	"kubectl --context west delete serviceimport web -n demo   # refused: ServiceImports are read-only",
	"kubectl mcs explain web -n demo --context west",
	"kubectl mcs leave west --from east",
	"kubectl --context west explain serviceexports.spec",
	"kubectl --context west get pods -A",
}

func demo(ctx context.Context, open opener, nodes int) error {
	set, err := start(ctx, open, []string{"east", "west"}, nodes)
	if err != nil {
		return err
	}
	for _, line := range steps {
		fmt.Printf("\n$ %s\n", line)
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Dir, cmd.Stdout, cmd.Stderr = set.Root, os.Stdout, os.Stdout
		cmd.Env = append(os.Environ(), "KUBECONFIG="+set.Kubeconfig(), "PATH="+set.Root+"/bin:"+set.Root+"/bin/kubernetes:"+os.Getenv("PATH"))
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	fmt.Printf("\nBoth clusters keep running; stop them with 'make down'. Try:\n\n  %s\n", environment(set))
	for _, line := range suggestions {
		fmt.Println("  " + line)
	}
	return nil
}
