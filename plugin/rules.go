// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// rulesPollInterval is how often the rule files are checked for a change when
// no request for an image does it, so that a broken file is logged soon.
const rulesPollInterval = time.Second

// ruleDir keeps the rules of a directory current. Every call of Current compares
// the files' stamps, so a change holds from the next request on, and no event
// can be missed. Safe for concurrent use; no lock is held while files are read.
type ruleDir struct {
	path     string
	section  policy.Overrides
	reloaded func(ok bool)
	current  atomic.Pointer[ruleSet]
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed when the background work has ended
}

// ruleSet is the result of one read of the directory. It is not changed once it
// is current.
type ruleSet struct {
	rules  *policy.Rules     // the last good ones, with the section below them
	count  int               // of those rules
	files  int               // that those rules stand in
	stamps filestamp.Stamps  // of the directory and the newest files
	sum    [sha256.Size]byte // of the newest files' paths and content; zero = they were not read
	err    error             // why the newest files are not in force; nil: they are
}

// openRules reads the rules for the first time; an error of that read is
// returned, and there is nothing to close then. A directory that does not exist
// has no rules. reloaded is called at once, and with the result of each later
// change. The caller closes the ruleDir.
func openRules(path string, section policy.Overrides, reloaded func(ok bool)) (*ruleDir, error) {
	d := &ruleDir{path: path, section: section, reloaded: reloaded, stop: make(chan struct{}), stopped: make(chan struct{})}
	first := d.read(&ruleSet{rules: policy.NewRules(section, nil)})
	if first.err != nil {
		return nil, first.err
	}
	d.current.Store(first)
	reloaded(true)
	prefixlog.L().Infof("%d rules of %d files in %s are in force", first.count, first.files, path)
	go d.poll()
	return d, nil
}

// Close ends the background work, and returns when it has ended. The error is
// always nil.
func (d *ruleDir) Close() error {
	close(d.stop)
	<-d.stopped
	return nil
}

func (d *ruleDir) poll() {
	defer close(d.stopped)
	t := time.NewTicker(rulesPollInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.Current()
		case <-d.stop:
			return
		}
	}
}

// Current returns the rules in force: those of the files as they are now, or
// the last good ones when the files cannot be read or have an error.
func (d *ruleDir) Current() *policy.Rules {
	was := d.current.Load()
	if was.stamps.Current() {
		return was.rules
	}
	now := d.read(was)
	if !d.current.CompareAndSwap(was, now) {
		// Another call has read them at the same time.
		return d.current.Load().rules
	}
	d.report(was, now)
	return now.rules
}

// report logs and counts a change, once. The same error and the same content are
// no change.
func (d *ruleDir) report(was, now *ruleSet) {
	switch {
	case now.err != nil && (was.err == nil || was.err.Error() != now.err.Error()):
		d.reloaded(false)
		prefixlog.L().WithError(now.err).Errorf("the rules in %s are not taken; the last good %d rules stay in force", d.path, now.count)
	case now.err == nil && (was.err != nil || was.sum != now.sum):
		d.reloaded(true)
		prefixlog.L().Infof("%d rules of %d files in %s are in force", now.count, now.files, d.path)
	}
}

// maxReads is how often the files are read when they change meanwhile: nobody
// wrote a mix of old and new ones as a set of rules.
const maxReads = 3

// read reads all files. An error leaves the rules of was in force.
func (d *ruleDir) read(was *ruleSet) *ruleSet {
	now := d.readOnce(was)
	for try := 1; try < maxReads && !now.stamps.Same(); try++ {
		now = d.readOnce(was)
	}
	now.stamps = now.stamps.Following(was.stamps)
	return now
}

func (d *ruleDir) readOnce(was *ruleSet) *ruleSet {
	now := &ruleSet{rules: was.rules, count: was.count, files: was.files}
	files, stamps, err := readRuleFiles(d.path)
	now.stamps = stamps
	switch {
	case errors.Is(err, errNoRuleDir) && was.files == 0:
		now.sum = sumOf(nil)
		return now
	case errors.Is(err, errNoRuleDir):
		now.err = err
		return now
	case err == nil:
		now.sum = sumOf(files)
	}
	if err == nil && now.sum == was.sum {
		now.err = was.err
		return now
	}
	rules, problems := parseRuleFiles(files)
	if now.err = errors.Join(err, problems); now.err != nil {
		return now
	}
	now.rules, now.count, now.files = policy.NewRules(d.section, rules), len(rules), len(files)
	return now
}
