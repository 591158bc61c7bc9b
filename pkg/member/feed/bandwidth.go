// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

const (
	// fillTime is how many seconds it takes to read as many bytes from a member as its
	// exports may take in memory. So fast is a member read that keeps sending.
	fillTime = 8
	// maxRead is how many bytes are read at a time: the probe waits for so many.
	maxRead = 32 << 10
)

// newBandwidth limits how many bytes are read from a member, with all requests together:
// everything that it may export at once, and a part of that every second. Decoding costs
// time, and members share the processors. Reading slowly makes the member send slowly.
func newBandwidth(memoryLimit int64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(max(maxRead, memoryLimit/fillTime)), int(max(maxRead, memoryLimit)))
}

// pacedBody is the body of a response that is read within a bandwidth.
type pacedBody struct {
	io.ReadCloser
	ctx       context.Context //nolint:containedctx // that of the request, for io.Reader
	bandwidth *rate.Limiter
}

// Read implements io.Reader.
func (b *pacedBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer[:min(len(buffer), maxRead)])
	if n == 0 {
		return n, err
	}
	if waitErr := b.bandwidth.WaitN(b.ctx, n); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}
