// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// Confirm asks the user a question. It returns an error unless the answer is yes.
func (f *Factory) Confirm(question string) error {
	fmt.Fprintf(f.Streams.Out, "%s [y/N]: ", question)
	answer, err := bufio.NewReader(f.Streams.In).ReadString('\n')
	if err != nil { // the input ended within the line of the question
		fmt.Fprintln(f.Streams.Out)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, and nothing was changed: answer y, or use --yes to skip the question")
}
