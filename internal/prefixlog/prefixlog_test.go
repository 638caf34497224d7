// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package prefixlog

import (
	"errors"
	"slices"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

func TestMessagesHaveThePrefix(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger).WithField("request", 7))
	e := G(ctx).WithField("image", "app").WithFields(log.Fields{"attempts": 2}).WithError(errors.New("broken"))
	for _, test := range []struct {
		level log.Level
		plain func(string)
		f     func(string, ...any)
	}{
		{log.DebugLevel, e.Debug, e.Debugf},
		{log.InfoLevel, e.Info, e.Infof},
		{log.WarnLevel, e.Warn, e.Warnf},
		{log.ErrorLevel, e.Error, e.Errorf},
	} {
		hook.Reset()
		test.plain("100% done")
		test.f("%d of %q", 1, "a")
		var got []string
		for _, entry := range hook.AllEntries() {
			got = append(got, entry.Message)
			if entry.Level != test.level {
				t.Errorf("%q is logged at level %s, want %s", entry.Message, entry.Level, test.level)
			}
			if d := entry.Data; d["request"] != 7 || d["image"] != "app" || d["attempts"] != 2 || d["error"] == nil {
				t.Errorf("%q has the fields %v", entry.Message, d)
			}
		}
		if want := []string{"pullwarden: 100% done", `pullwarden: 1 of "a"`}; !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
}

func TestDisabledLevels(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	e := G(log.WithLogger(t.Context(), logrus.NewEntry(logger)))
	e.Debug("a")
	e.Debugf("%s", "a")
	if logged := hook.AllEntries(); len(logged) > 0 {
		t.Errorf("logged %v", logged)
	}
}

func TestGlobalLogger(t *testing.T) {
	hook := new(logtest.Hook)
	before := log.L.Logger.ReplaceHooks(logrus.LevelHooks{})
	defer log.L.Logger.ReplaceHooks(before)
	log.L.Logger.AddHook(hook)
	L().Info("at start-up")
	G(t.Context()).Warn("without a logger")
	var got []string
	for _, entry := range hook.AllEntries() {
		got = append(got, entry.Message)
	}
	if want := []string{"pullwarden: at start-up", "pullwarden: without a logger"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}
