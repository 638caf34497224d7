// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cliapp runs the applications of containerd's commands, whichever version of
// their command-line library a minor of containerd has.
package cliapp

import (
	"context"
	"fmt"
)

// Run runs an application with its arguments, the first of which is its name. From
// containerd 2.4 on applications take a context, before they make one of their own.
func Run(ctx context.Context, app any, args []string) error {
	switch app := app.(type) {
	case interface {
		Run(context.Context, []string) error
	}:
		return app.Run(ctx, args)
	case interface{ Run([]string) error }:
		return app.Run(args)
	}
	return fmt.Errorf("this containerd's application is a %T, which nothing here can run", app)
}
