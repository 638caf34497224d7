// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Lines of many at once are whole, and Close writes all of them.
func TestObserveFromMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, func() { t.Error("a line is lost") })
	if err != nil {
		t.Fatal(err)
	}
	const many, each = 8, 100
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			for range each {
				l.Observe(t.Context(), engine.Outcome{Kind: engine.Pulled, Name: "registry.test/app:1"})
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	if n := bytes.Count(data, []byte("\"outcome\":\"Pulled\"")); err != nil || n != many*each || bytes.Count(data, []byte("\n")) != n {
		t.Errorf("%d lines, %v", n, err)
	}
}

// Nobody waits for a writer that does not come to its end: what it cannot take is lost.
func TestObserveNeverWaits(t *testing.T) {
	var lost atomic.Int64
	l := &Log{lost: func() { lost.Add(1) }, pending: make(chan []byte, 1), stopped: make(chan struct{})}
	for range 3 {
		l.Observe(t.Context(), engine.Outcome{})
	}
	if n := lost.Load(); n != 2 {
		t.Errorf("%d lines are lost", n)
	}
}

// The log tells of lines that are lost since the disk is slow, once, and how many there
// were.
func TestSlowDisk(t *testing.T) {
	hook := logtest.NewLocal(log.L.Logger)
	defer log.L.Logger.ReplaceHooks(logrus.LevelHooks{})
	stopped := make(chan struct{})
	l := &Log{
		path: filepath.Join(t.TempDir(), "audit.log"), lost: func() {}, openFile: openFile, pending: make(chan []byte, 1),
		stop: func() { close(stopped) }, stopped: stopped, ended: make(chan struct{}),
	}
	for range 3 { // as while the writer hangs
		l.Observe(t.Context(), engine.Outcome{})
	}
	if told := hook.AllEntries(); len(told) != 1 || !strings.Contains(told[0].Message, "decisions are not recorded") {
		t.Errorf("%d lines of the log, %v", len(told), told)
	}
	go l.write()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if last := hook.LastEntry(); last == nil || !strings.Contains(last.Message, "2 decisions were not recorded") {
		t.Errorf("the log ends with %v", last)
	}
}

// A closed log loses what comes later, and is counted.
func TestObserveAfterClose(t *testing.T) {
	var lost atomic.Int64
	l, err := Open(filepath.Join(t.TempDir(), "audit.log"), func() { lost.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range maxPending + 1 {
		l.Observe(t.Context(), engine.Outcome{})
	}
	if n := lost.Load(); n != maxPending+1 {
		t.Errorf("%d lines are lost", n)
	}
	var none *Log
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// Each line beside Close is written, or is lost and counted.
func TestObserveBesideClose(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "audit.log")
		var told, lost atomic.Int64
		l, err := Open(path, func() { lost.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 20 {
					l.Observe(t.Context(), engine.Outcome{})
					told.Add(1)
				}
			})
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		data, err := os.ReadFile(path)
		if written := int64(bytes.Count(data, []byte("\n"))); err != nil || written+lost.Load() != told.Load() {
			t.Fatalf("%d lines are written and %d are lost of %d, %v", written, lost.Load(), told.Load(), err)
		}
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	l := lineOf(engine.Outcome{Err: errors.New(strings.Repeat("ä", maxError))}, time.Now())
	if len(l.Error) > maxError+3 || !strings.HasSuffix(l.Error, "ä...") {
		t.Errorf("%d bytes, which end in %q", len(l.Error), l.Error[len(l.Error)-5:])
	}
}
