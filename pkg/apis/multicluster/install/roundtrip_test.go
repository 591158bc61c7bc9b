package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/fuzzer"
)

// Every hub object survives the way to each version of each group and back.
func TestRoundTripEveryGroupVersion(t *testing.T) {
	roundtrip.RoundTripTestForAPIGroup(t, Install, fuzzer.Funcs)
}
