// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"context"
	"io"
	"reflect"
	"strings"

	"github.com/sirupsen/logrus"
)

// discard is the registry's log.
var discard = func() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.PanicLevel)
	return logrus.NewEntry(l)
}()

// discardLogger is a context that gives distribution a logger of its own, which
// logs nothing. Distribution keeps the key for it internal, and falls back to
// logrus's global logger, which is also containerd's: to silence that one would
// hide the logs under test.
type discardLogger struct{ context.Context }

// Value answers the question for the logger, and passes on any other.
func (c discardLogger) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.Name() == "loggerKey" && strings.HasSuffix(t.PkgPath(), "/internal/dcontext") {
		return discard
	}
	return c.Context.Value(key)
}
