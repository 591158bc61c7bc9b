// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
)

// messageFile returns the termination message file. It is beside the stage of the
// container, whose content only the container sees.
func messageFile(stage string) string { return stage + ".message" }

// terminated returns the terminated state of a container.
func terminated(container *corev1.Container, code int, startedAt, finishedAt time.Time, stage string, log *logs.Log) *corev1.ContainerStateTerminated {
	state := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", StartedAt: stamp(startedAt), FinishedAt: stamp(finishedAt)}
	if code != 0 {
		state.Reason = "Error"
	}
	const limit = 4096
	if message, err := os.ReadFile(messageFile(stage)); err == nil {
		state.Message = string(message[:min(len(message), limit)])
	}
	if state.Message == "" && code != 0 && container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		var tail strings.Builder
		if err := log.Read(context.Background(), &tail, logs.Options{Tail: ptr.To[int64](80)}); err == nil {
			text := tail.String()
			state.Message = text[max(0, len(text)-2048):]
		}
	}
	return state
}
