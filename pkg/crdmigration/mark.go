// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmigration

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	// Account is the service account with which mcs-controller copies objects. The command
	// creates it with the mark, and deletes it when the migration is complete: the service
	// account of mcs-controller itself may write none of these objects.
	Account = clusterset.MigrationConfigMap
	// ClusterRole is what the account is bound to, by a ClusterRoleBinding with the name of the
	// account.
	ClusterRole = "mcs-apiserver:migration"

	phaseKey    = "phase"
	reportKey   = "report"
	requestKey  = "request"
	returnedKey = "returned"
)

// Phase is what happens while the mark exists.
type Phase string

const (
	// Copying means that mcs-controller copies the objects of CRDs.
	Copying Phase = "Copying"
	// Returning means that the group-versions are being returned to CRDs.
	Returning Phase = "Returning"
	// Returned means that CRDs serve their group-versions again.
	Returned Phase = "Returned"
)

// PhaseOf returns the phase of a mark. A mark without one, which an administrator may create
// by hand, means that objects are copied.
func PhaseOf(mark *corev1.ConfigMap) Phase {
	if phase := Phase(mark.Data[phaseKey]); phase != "" {
		return phase
	}
	return Copying
}

// SetPhase sets the phase of a mark. What was reported in another one does not count. When
// resources were returned is known as long as the mark exists.
func SetPhase(mark *corev1.ConfigMap, phase Phase) {
	data := map[string]string{phaseKey: string(phase)}
	if returned, ok := mark.Data[returnedKey]; ok {
		data[returnedKey] = returned
	}
	mark.Data = data
}

// Request asks for a report that is made of what is read after this: a report of before may
// happen to have the digest of now, although something else was copied in between.
func Request(mark *corev1.ConfigMap, request string) {
	if mark.Data == nil {
		mark.Data = map[string]string{}
	}
	mark.Data[requestKey] = request
}

// RequestOf returns the request in a mark, which a report repeats.
func RequestOf(mark *corev1.ConfigMap) string { return mark.Data[requestKey] }

// SetReturned records when resources were returned to CRDs, by their plural names.
func SetReturned(mark *corev1.ConfigMap, plurals []string, at time.Time) error {
	times := returnTimes(mark)
	for _, plural := range plurals {
		times[plural] = at.UTC()
	}
	text, err := json.Marshal(times)
	if err != nil {
		return fmt.Errorf("encode %s: %w", returnedKey, err)
	}
	if mark.Data == nil {
		mark.Data = map[string]string{}
	}
	mark.Data[returnedKey] = string(text)
	return nil
}

// ReturnedAt returns when a resource was returned to its CRD, zero if it was not: what
// mcs-apiserver had then, the CRD had, too.
func ReturnedAt(mark *corev1.ConfigMap, plural string) time.Time { return returnTimes(mark)[plural] }

func returnTimes(mark *corev1.ConfigMap) map[string]time.Time {
	times := map[string]time.Time{}
	if err := json.Unmarshal([]byte(mark.Data[returnedKey]), &times); err != nil {
		return map[string]time.Time{}
	}
	return times
}

// Report is what mcs-controller has copied.
type Report struct {
	// Resources has an entry for each resource that a CRD serves, by its plural name.
	Resources map[string]ResourceReport `json:"resources"`
	// Problem is why nothing is copied, if that is so.
	Problem string `json:"problem,omitempty"`
	// Request is the one that this report answers, see Request.
	Request string `json:"request,omitempty"`
}

// ResourceReport is what was copied of one resource.
type ResourceReport struct {
	// Digest is that of the objects that were copied, see Resource.Digest.
	Digest string `json:"digest"`
	// Copied is the number of objects of which there is an up-to-date copy.
	Copied int `json:"copied"`
	// Kept are objects that exist without having been copied. KeptCount and RefusedCount are
	// how many there are; only some are named.
	Kept         []string  `json:"kept,omitempty"`
	KeptCount    int       `json:"keptCount,omitempty"`
	Refused      []Refusal `json:"refused,omitempty"`
	RefusedCount int       `json:"refusedCount,omitempty"`
}

// maxNamed limits how many objects a report names, and maxReason the length of a reason: a
// ConfigMap holds 1 MiB.
const maxNamed, maxReason = 200, 500

// NewResourceReport returns the report about a resource.
func NewResourceReport(digest string, copied int, kept []string, refused []Refusal) ResourceReport {
	report := ResourceReport{
		Digest: digest, Copied: copied, KeptCount: len(kept), RefusedCount: len(refused),
		Kept: kept[:min(len(kept), maxNamed)],
	}
	for _, refusal := range refused[:min(len(refused), maxNamed)] {
		refusal.Reason = truncate.Characters(refusal.Reason, maxReason)
		report.Refused = append(report.Refused, refusal)
	}
	return report
}

// ReportOf returns the report in a mark. It is empty if there is none yet.
func ReportOf(mark *corev1.ConfigMap) (Report, error) {
	var report Report
	text, reported := mark.Data[reportKey]
	if !reported {
		return report, nil
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return report, fmt.Errorf("decode %s of ConfigMap %s/%s: %w", reportKey, mark.Namespace, mark.Name, err)
	}
	return report, nil
}

// SetReport sets the report in a mark, and returns whether it is another one.
func SetReport(mark *corev1.ConfigMap, report Report) (bool, error) {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return false, fmt.Errorf("encode report: %w", err)
	}
	if mark.Data[reportKey] == string(text) {
		return false, nil
	}
	if mark.Data == nil {
		mark.Data = map[string]string{}
	}
	mark.Data[reportKey] = string(text)
	return true, nil
}
