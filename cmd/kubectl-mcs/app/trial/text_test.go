// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

func reportOf(checks []Check) Report {
	return Report{
		ClusterSet: "production", Namespace: "ns", Service: "mcs-test-x", NotTested: []string{"north"}, Checks: checks, Passed: passed(checks),
		Clusters: []Cluster{{Context: "e", ClusterID: "east", Image: "mcs-controller:v1"}, {Context: "w", ClusterID: "west", Image: "mcs-controller:v1"}},
	}
}

func textOf(t *testing.T, report Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeReport(&out, report); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// R560: the matrix has results and latencies. What does not apply is a dash.
func TestMatrix(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	expect.Text(t, `
ClusterSet production, service mcs-test-x in namespace ns
Cluster east: image mcs-controller:v1
Cluster west: image mcs-controller:v1
Members that were not tested, because there is no context for them: north

Server by server (headless)
FROM   TO     DNS/IPv4   DNS/IPv6   TCP/IPv4   UDP/IPv4   TCP/IPv6   UDP/IPv6
east   east   1.2ms      1.2ms      12ms       12ms       12ms       12ms
east   west   1.2ms      -          12ms       12ms       -          -
west   east   1.2ms      -          12ms       12ms       -          -
west   west   1.2ms      -          12ms       12ms       -          -

ClusterSet IP
FROM   DNS/IPv4   DNS/IPv6   SRV     TCP/IPv4   UDP/IPv4   TCP/IPv6   UDP/IPv6   ANSWERED-BY
east   1.2ms      1.2ms      1.2ms   12ms       12ms       12ms       12ms       east 30, west 14
west   1.2ms      -          1.2ms   12ms       12ms       -          -          east 8, west 14

All servers by one name (headless)
FROM   DNS/IPv4   DNS/IPv6   SRV
east   1.2ms      1.2ms      1.2ms
west   1.2ms      -          1.2ms

Everything that applies works.
`, textOf(t, reportOf(judge(checks, all(testRun, checks)))))
}

// R560: failures are in the matrix and below it, with what to do.
func TestMatrixWithFailures(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	seen := all(testRun, checks)
	for i := range seen["east"].results.Contacts {
		if contact := &seen["east"].results.Contacts[i]; contact.Address == "10.2.0.1:8080" {
			contact.Outcome, contact.Failed, contact.Sent, contact.Clusters = podprobe.TimedOut, 1, 1, nil
		}
	}
	seen["west"] = outcome{failure: "client: no\nimage"}
	expect.Text(t, `
ClusterSet production, service mcs-test-x in namespace ns
Cluster east: image mcs-controller:v1
Cluster west: image mcs-controller:v1
Members that were not tested, because there is no context for them: north

Server by server (headless)
FROM   TO     DNS/IPv4   DNS/IPv6   TCP/IPv4   UDP/IPv4   TCP/IPv6   UDP/IPv6
east   east   1.2ms      1.2ms      12ms       12ms       12ms       12ms
east   west   1.2ms      -          failed     failed     -          -
west   east   ?          -          ?          ?          -          -
west   west   ?          -          ?          ?          -          -

ClusterSet IP
FROM   DNS/IPv4   DNS/IPv6   SRV     TCP/IPv4   UDP/IPv4   TCP/IPv6   UDP/IPv6   ANSWERED-BY
east   1.2ms      1.2ms      1.2ms   12ms       12ms       12ms       12ms       east 30, west 14
west   ?          -          ?       ?          ?          -          -          -

All servers by one name (headless)
FROM   DNS/IPv4   DNS/IPv6   SRV
east   1.2ms      1.2ms      1.2ms
west   ?          -          ?

Failures:
  ✗ east → west, Headless TCP/IPv4, Headless UDP/IPv4: 10.2.0.1:8080: timed out
  ? west, ClusterSetIP DNS/IPv4, ClusterSetIP SRV, ClusterSetIP TCP/IPv4, ClusterSetIP UDP/IPv4, Headless DNS/IPv4, Headless SRV: client: no\nimage
  ? west → east, Headless DNS/IPv4, Headless TCP/IPv4, Headless UDP/IPv4: client: no\nimage
  ? west → west, Headless DNS/IPv4, Headless TCP/IPv4, Headless UDP/IPv4: client: no\nimage
What to do:
  `+"`kubectl mcs doctor --context e --contexts w`"+` checks the ClusterSet as cluster east sees it.
  `+"`kubectl mcs doctor --context w --contexts e`"+` checks the ClusterSet as cluster west sees it.
  `+"`kubectl mcs test e w --keep` leaves the service, so that `kubectl mcs doctor`"+` can find out at which hop it is broken.
`, textOf(t, reportOf(judge(checks, seen))))
}
