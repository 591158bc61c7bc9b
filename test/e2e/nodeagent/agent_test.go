// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import "testing"

// TestAgent runs the tests that can run in parallel. Tests that stop the agent follow.
func TestAgent(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Node":            testNode,
		"Deployment":      testDeployment,
		"StatefulSet":     testStatefulSet,
		"Services":        testServices,
		"Job":             testJob,
		"InitContainers":  testInitContainers,
		"HostNetwork":     testHostNetwork,
		"Exec":            testExec,
		"Terminal":        testTerminal,
		"Logs":            testLogs,
		"PortForward":     testPortForward,
		"Environment":     testEnvironment,
		"Volumes":         testVolumes,
		"User":            testUser,
		"Claim":           testClaim,
		"Token":           testToken,
		"Readiness":       testReadiness,
		"Liveness":        testLiveness,
		"CrashLoop":       testCrashLoop,
		"Missing":         testMissing,
		"Termination":     testTermination,
		"Stubborn":        testStubborn,
		"Force":           testForce,
		"DeleteNamespace": testDeleteNamespace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
