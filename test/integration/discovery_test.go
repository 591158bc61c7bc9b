package integration

import (
	"strings"
	"testing"
)

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := suite.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func TestSmoke(t *testing.T) {
	t.Log(kubectl(t, "api-resources"))
	t.Log(kubectl(t, "get", "serviceimports", "-A"))
}
