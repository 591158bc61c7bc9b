// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"fmt"
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldest is the oldest release of Kubernetes that is supported.
var oldest = version.MajorMinor(1, 33)

// evaluate evaluates an expression of CEL as the oldest release does.
func evaluate(t *testing.T, expression string) (any, error) {
	t.Helper()
	env, err := environment.MustBaseEnvSet(oldest).Env(environment.NewExpressions)
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{})
	if err != nil {
		return nil, err
	}
	return value.Value(), nil
}

// R266: a range that is not valid reserves nothing. It does not deny addresses of other ranges,
// which would be all addresses of load balancers.
func TestInvalidClusterSetIPRangeDeniesNothing(t *testing.T) {
	text, err := os.ReadFile("../artifacts/default/admission-clustersetip.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[0]), &policy); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ranges, address string
		allowed         bool
	}{
		{"['243.0.0.0/8']", "243.1.2.3", false},
		{"['243.0.0.0/8']", "192.0.2.1", true},
		{"['fd00:243:::/48']", "192.0.2.1", true},
		{"['::ffff:243.0.0.0/104']", "192.0.2.1", true},
		{"['fd00:243:::/48', '243.0.0.0/8']", "243.1.2.3", false},
		{"['']", "192.0.2.1", true},
	} {
		for _, account := range []bool{false, true} {
			variables := []string{"variables.account", fmt.Sprint(account), "variables.added", "['" + test.address + "']", "variables.ingress", "['" + test.address + "']"}
			values := strings.NewReplacer(append(variables, "variables.ranges", test.ranges)...)
			for _, variable := range policy.Spec.Variables {
				if variable.Name == "cidrs" {
					values = strings.NewReplacer(append(variables, "variables.ranges", test.ranges, "variables.cidrs", values.Replace(variable.Expression))...)
				}
			}
			allowed := true
			for _, validation := range policy.Spec.Validations {
				expression := values.Replace(validation.Expression)
				ok, err := evaluate(t, expression)
				if err != nil {
					t.Errorf("ranges %s, address %s: %s: %v", test.ranges, test.address, expression, err)
				}
				allowed = allowed && ok == true
				if _, err := evaluate(t, values.Replace(validation.MessageExpression)); err != nil {
					t.Error(err)
				}
			}
			// mcs-controller uses addresses of the ranges only.
			if want := test.allowed != account; allowed != want {
				t.Errorf("ranges %s, address %s, mcs-controller %t: allowed is %t, want %t", test.ranges, test.address, account, allowed, want)
			}
		}
	}
}
