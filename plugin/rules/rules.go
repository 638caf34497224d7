// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules keeps the rules of a directory current. A directory with a mistake
// leaves the last good rules in force, also over a restart: they are kept in an
// archive.
package rules

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// pollInterval is how often the rule files are checked for a change when no
// request for an image does it, so that a broken file is logged soon.
const pollInterval = time.Second

// Options say which rules to keep current.
type Options struct {
	// Path is the directory of the rule files, absolute.
	Path string
	// Required says that a directory that is not there is an error. Default:
	// false, it has no rules unless it had some before, or may have had: the archive
	// cannot be read.
	Required bool
	// Section are the directives below all rules. Default: none.
	Section policy.Overrides
	// Archive is the path of the file that keeps the last good rules. It has a
	// directory of its own, which is made. Default: "", they are kept in memory only.
	Archive string
	// Reloaded is called by Open, and with the result of each later change.
	// Default: nil, nobody is told.
	Reloaded func(ok bool)

	// parseFile parses a file. Default: nil, [policy.ParseRules]; tests have their own.
	parseFile func(file string, data []byte) ([]policy.Rule, error)
}

// Dir keeps the rules of a directory current. Every call of Current compares
// the files' stamps, so a change holds from the next request on, and no event
// can be missed. Safe for concurrent use; no lock is held while files are read or parsed.
type Dir struct {
	Options
	current atomic.Pointer[ruleSet]
	reads   atomic.Uint64
	parsing singleflight.Group          // by the sum of the files
	last    atomic.Pointer[parsedFiles] // those that were parsed last; nil = none
	changed chan struct{}               // has a value when there are other rules to keep
	stop    context.CancelFunc          // ends the background work
	stopped chan struct{}               // closed when the background work has ended
	archive keptfiles.Archive           // of the background work, once that has begun
}

// ruleSet is the result of one read of the directory. It is not changed once it
// is current.
type ruleSet struct {
	good
	stamps filestamp.Stamps // of the directory and the newest files
	sum    keptfiles.Sum    // of the newest files, and of why some could not be read
	err    error            // why the newest files are not in force; nil: they are
	read   uint64           // the number of that read
	lost   bool             // there were files before that nobody can read any more
}

// good are rules without a mistake.
type good struct {
	rules  *policy.Rules // with the section below them
	parsed []policy.Rule // in their order
	files  []File        // that they stand in
	of     keptfiles.Sum // of those files
}

// Open reads the rules for the first time. Where they have a mistake the archive's
// take their place; an error means that there is none, or that it cannot be read
// either, and there is nothing to close then. The caller closes the Dir.
func Open(o Options) (*Dir, error) {
	if o.Reloaded == nil {
		o.Reloaded = func(bool) {}
	}
	if o.parseFile == nil {
		o.parseFile = policy.ParseRules
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &Dir{Options: o, changed: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}), archive: keptfiles.New(o.Archive)}
	kept, keptErr := d.archive.Load()
	last, _ := d.parse(ctx, kept.Files) // nothing ends the context before Close
	was := &ruleSet{good: last.good, sum: last.of}
	if keptErr = errors.Join(keptErr, last.err); keptErr != nil {
		none, _ := d.goodRules(nil)
		was = &ruleSet{good: none, lost: !errors.Is(keptErr, keptfiles.ErrNothing)}
	}
	r, _ := d.read(ctx)
	first := d.after(was, r)
	if first.err != nil && keptErr == nil && len(was.parsed) == 0 && errors.Is(first.err, ErrNoDir) {
		keptErr = keptfiles.ErrNothing // they may be those of another directory
	}
	if first.err != nil && keptErr != nil {
		stop()
		return nil, notStarted(first.err, keptErr)
	}
	d.current.Store(first)
	o.Reloaded(first.err == nil)
	if first.err != nil {
		prefixlog.L().WithError(first.err).Errorf("the rules in %s are not taken; the last good ones are used instead: %s, kept on %s",
			o.Path, first, kept.At.UTC().Format(time.RFC3339))
	} else {
		logUsed(o.Path, first)
	}
	d.keep()
	go d.work(ctx)
	return d, nil
}

// String says how many rules there are, and in how many files.
func (g *good) String() string {
	return plural.Of(len(g.parsed), "rule") + " of " + plural.Of(len(g.files), "file")
}

// notStarted returns the error of a start without any good rules.
func notStarted(err, keptErr error) error {
	if errors.Is(keptErr, keptfiles.ErrNothing) {
		return err
	}
	return errors.Join(err, fmt.Errorf("the last good rules cannot take their place: %w", keptErr))
}

func logUsed(path string, s *ruleSet) {
	prefixlog.L().Infof("the rules in %s are used: %s", path, s)
}

// Close ends the background work, and returns when it has ended; a parsing that is
// under way ends by itself, and nothing comes of it. The error is always nil.
func (d *Dir) Close() error {
	d.stop()
	<-d.stopped
	return nil
}

// work looks for changes, keeps good rules, and warns of what is surely not meant in
// them: once for all requests.
func (d *Dir) work(ctx context.Context) {
	defer close(d.stopped)
	advised := d.advise(keptfiles.Sum{})
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.poll(ctx)
			d.keep()
		case <-d.changed:
			d.keep()
			advised = d.advise(advised)
		case <-ctx.Done():
			d.keep()
			return
		}
	}
}

// poll has a change taken that no request has seen. It waits for no longer than until the next look: others may be in
// force meanwhile, and are to be kept.
func (d *Dir) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollInterval)
	defer cancel()
	_, _ = d.Current(ctx) // the error is that of the context
}

// keep writes the rules in force to the archive, unless they are there.
func (d *Dir) keep() {
	now := d.current.Load()
	if err := d.archive.Keep(now.files, now.of); err != nil {
		prefixlog.L().WithError(err).Warn("the rules in use are not kept: a restart with a mistake in a rule file goes back to older ones, or fails")
	}
}

// Current returns the rules in force: those of the files as they are now, or
// the last good ones when the files cannot be read or have an error. Calls that come
// together after a change wait for one parsing of the files. The error is that of a
// context which ends meanwhile; the rules are those before then.
func (d *Dir) Current(ctx context.Context) (*policy.Rules, error) {
	was := d.current.Load()
	if was.stamps.Current() {
		return was.rules, nil
	}
	r, err := d.read(ctx)
	if err != nil {
		return was.rules, err
	}
	for {
		was = d.current.Load()
		if was.read > r.number {
			return was.rules, nil // another call has read them since this one came
		}
		now := d.after(was, r)
		if d.current.CompareAndSwap(was, now) {
			d.report(was, now)
			return now.rules, nil
		}
	}
}

// InForce returns the rules that Current has returned last, without a look at the files.
func (d *Dir) InForce() *policy.Rules { return d.current.Load().rules }

// State says which rules are in force.
type State struct {
	Rules, Files int   // how many there are, and the files that they stand in
	Err          error // why the newest files are not in force; nil = they are
}

// State is that of the rules that Current returns, and has its error.
func (d *Dir) State(ctx context.Context) (State, error) {
	_, err := d.Current(ctx)
	now := d.current.Load()
	return State{Rules: len(now.parsed), Files: len(now.files), Err: now.err}, err
}

// report logs and counts a change, once, and has good rules kept. The same error
// and the same content are no change.
func (d *Dir) report(was, now *ruleSet) {
	switch {
	case now.err != nil && (was.err == nil || was.err.Error() != now.err.Error()):
		d.Reloaded(false)
		prefixlog.L().WithError(now.err).Errorf("the rules in %s are not taken; the last good ones are used instead: %s", d.Path, now)
	case now.err == nil && (was.err != nil || was.sum != now.sum):
		d.Reloaded(true)
		logUsed(d.Path, now)
		select {
		case d.changed <- struct{}{}:
		default: // it is to look anyway
		}
	}
}

// maxReads is how often the files are read when they change meanwhile: nobody
// wrote a mix of old and new ones as a set of rules.
const maxReads = 3

// reading is one read of the files.
type reading struct {
	number uint64           // by the beginnings of reads
	stamps filestamp.Stamps // of the directory and the files
	err    error            // why some cannot be read; nil = all were
	parsed *parsedFiles     // the others
}

// read reads all files, and has them parsed. The error is that of the context.
func (d *Dir) read(ctx context.Context) (r reading, err error) {
	r.number = d.reads.Add(1)
	files, stamps, readErr := readFiles(d.Path)
	for try := 1; try < maxReads && !stamps.Same(); try++ {
		files, stamps, readErr = readFiles(d.Path)
	}
	r.stamps, r.err = stamps, readErr
	r.parsed, err = d.parse(ctx, files)
	return r, err
}

// after returns what is in force after a read. A mistake leaves the rules of was in force.
func (d *Dir) after(was *ruleSet, r reading) *ruleSet {
	now := &ruleSet{good: was.good, stamps: r.stamps.Following(was.stamps), err: r.err, read: r.number}
	if errors.Is(r.err, ErrNoDir) && !d.Required && len(was.parsed) == 0 && !was.lost {
		now.err = nil
	}
	if now.sum = sumOf(r.parsed.of, now.err); now.sum == was.sum {
		now.err = was.err // the very same is not told again
		return now
	}
	if now.err = errors.Join(now.err, r.parsed.err); now.err == nil {
		now.good = r.parsed.good
	}
	return now
}
