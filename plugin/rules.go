// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

const (
	// rulesPoll is how often the rule files are looked at when no request for
	// an image does it, so that a broken file is loud at once.
	rulesPoll = time.Second
	// settleTime is how long after a change its files are read again even if
	// nothing else tells a difference: two writes within one tick of the file
	// system's clock can have the same time and size.
	settleTime = 2 * time.Second
)

// ruleDir keeps the rules of a directory current. Current looks at the files
// each time, so a change holds from the next request on; nothing has to be
// told about it, and no event can be missed.
type ruleDir struct {
	path     string
	section  policy.Overrides
	reloaded func(ok bool)
	current  atomic.Pointer[ruleSet]
	stop     chan struct{}
	stopped  chan struct{}
}

// ruleSet is what was read of the directory at one time.
type ruleSet struct {
	rules *policy.Rules // the last good ones, with the section below them
	count int           // of rules
	files int
	stamp string            // names, sizes, inodes, change times of the files
	sum   [sha256.Size]byte // of their content
	fresh bool              // changed so recently that the stamp may hide a change
	err   error             // why the newest files are not in force
}

// openRules reads the rules for the first time; an error then is the caller's.
// A directory that does not exist has no rules. reloaded is told how each read
// of changed files went.
func openRules(path string, section policy.Overrides, reloaded func(ok bool)) (*ruleDir, error) {
	d := &ruleDir{path: path, section: section, reloaded: reloaded, stop: make(chan struct{}), stopped: make(chan struct{})}
	first := d.read(&ruleSet{rules: policy.NewRules(section, nil)})
	if first.err != nil {
		return nil, first.err
	}
	d.current.Store(first)
	reloaded(true)
	log.L.Infof("pullwarden: %d rules of %d files in %s are in force", first.count, first.files, path)
	go d.poll()
	return d, nil
}

// Close ends the background work.
func (d *ruleDir) Close() error {
	close(d.stop)
	<-d.stopped
	return nil
}

func (d *ruleDir) poll() {
	defer close(d.stopped)
	t := time.NewTicker(rulesPoll)
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
// the last good ones when the files cannot be read.
func (d *ruleDir) Current() *policy.Rules {
	was := d.current.Load()
	files, err := d.list()
	if err == nil && !was.fresh && stampOf(files) == was.stamp {
		return was.rules
	}
	now := d.read(was)
	if !d.current.CompareAndSwap(was, now) {
		// Somebody else read them at the same time.
		return d.current.Load().rules
	}
	d.report(was, now)
	return now.rules
}

// report tells about a change, once.
func (d *ruleDir) report(was, now *ruleSet) {
	switch {
	case now.err != nil && (was.err == nil || was.err.Error() != now.err.Error()):
		d.reloaded(false)
		log.L.WithError(now.err).Errorf("pullwarden: the rules in %s are not taken; the last good %d rules stay in force", d.path, now.count)
	case now.err == nil && (was.err != nil || was.sum != now.sum):
		d.reloaded(true)
		log.L.Infof("pullwarden: %d rules of %d files in %s are in force", now.count, now.files, d.path)
	}
}

// read reads all files; what is wrong leaves the rules of was in force.
func (d *ruleDir) read(was *ruleSet) *ruleSet {
	now := &ruleSet{rules: was.rules, count: was.count, files: was.files, sum: was.sum}
	files, err := d.list()
	if errors.Is(err, os.ErrNotExist) && was.files == 0 {
		now.stamp = stampOf(nil)
		return now
	}
	if err != nil {
		now.err = fmt.Errorf("read the rules: %w", err)
		return now
	}
	now.stamp = stampOf(files)
	now.fresh = changedSince(files, time.Now().Add(-settleTime))

	var (
		rules []policy.Rule
		errs  []error
		hash  = sha256.New()
	)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the rules: %w", err))
			continue
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n", f.path, len(data))
		hash.Write(data)
		parsed, err := policy.ParseRules(f.path, data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rules = append(rules, parsed...)
	}
	if now.err = errors.Join(errs...); now.err != nil {
		return now
	}
	now.rules, now.count, now.files = policy.NewRules(d.section, rules), len(rules), len(files)
	hash.Sum(now.sum[:0])
	return now
}

type ruleFile struct {
	path string
	info os.FileInfo
}

// list returns the rule files in the order of their names.
func (d *ruleDir) list() ([]ruleFile, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var files []ruleFile
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".toml") {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		// A link, as a mounted ConfigMap has them, is followed.
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, ruleFile{path, info})
	}
	return files, nil
}

// stampOf tells the files apart from any others, and from what they were
// before: by inode and change time, which nobody can set.
func stampOf(files []ruleFile) string {
	var b []byte
	for _, f := range files {
		b = append(b, f.path...)
		b = append(b, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.info.Size()))
		if sys, ok := f.info.Sys().(*syscall.Stat_t); ok {
			b = binary.LittleEndian.AppendUint64(b, sys.Ino)
			b = binary.LittleEndian.AppendUint64(b, uint64(sys.Ctim.Nano()))
		}
	}
	return string(b)
}

func changedSince(files []ruleFile, t time.Time) bool {
	for _, f := range files {
		if sys, ok := f.info.Sys().(*syscall.Stat_t); !ok || time.Unix(sys.Ctim.Unix()).After(t) {
			return true
		}
	}
	return false
}
