// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cliapp

import (
	"context"
	"errors"
	"testing"
)

var errRan = errors.New("ran")

type older struct{}

func (older) Run(args []string) error { return errors.Join(errRan, errors.New(args[0])) }

type newer struct{}

func (newer) Run(ctx context.Context, args []string) error {
	return errors.Join(errRan, ctx.Err(), errors.New(args[0]))
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, app := range []any{older{}, newer{}} {
		err := Run(ctx, app, []string{"name"})
		if !errors.Is(err, errRan) {
			t.Errorf("%T: %v", app, err)
		}
		if _, takes := app.(newer); errors.Is(err, context.Canceled) != takes {
			t.Errorf("%T: %v", app, err)
		}
	}
	if err := Run(t.Context(), struct{}{}, nil); err == nil {
		t.Error("what is no application ran")
	}
}
