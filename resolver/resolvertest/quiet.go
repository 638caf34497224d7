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

// silence is the registry's log.
var silence = func() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.PanicLevel)
	return logrus.NewEntry(l)
}()

// quiet is a context that gives distribution a logger of its own. Distribution
// keeps the key for it internal, and falls back to logrus's global logger,
// which is also containerd's: silencing that one would hide what is under test.
type quiet struct{ context.Context }

// Value answers the question for the logger, and passes on any other.
func (q quiet) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.Name() == "loggerKey" && strings.HasSuffix(t.PkgPath(), "/internal/dcontext") {
		return silence
	}
	return q.Context.Value(key)
}
