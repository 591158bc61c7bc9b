// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exitcode lets commands choose the exit code of the program.
package exitcode

import "errors"

// Failure is the exit code of errors that have no other.
const Failure = 1

// coded is an error with an exit code.
type coded struct {
	error
	code int
}

func (e *coded) Unwrap() error { return e.error }

// Set gives an error an exit code. It is nil if the error is.
func Set(err error, code int) error {
	if err == nil {
		return nil
	}
	return &coded{err, code}
}

// Of returns the exit code for an error, 0 without one.
func Of(err error) int {
	var found *coded
	switch {
	case err == nil:
		return 0
	case errors.As(err, &found):
		return found.code
	}
	return Failure
}
