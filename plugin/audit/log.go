// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/engine"
)

const (
	// maxPending bounds the lines that wait to be written: a disk that is slower than
	// decisions come loses lines, and holds up no pod.
	maxPending = 4096
	// closeTime bounds how long a shutdown waits for the lines that are pending.
	closeTime = 2 * time.Second
	// openTime bounds how long a start waits for the file to be open.
	openTime = 2 * time.Second
	fileMode = 0o600
)

// Log is an audit log: a file to which lines are appended. Nobody waits for it, and
// what cannot be written is counted and lost. Safe for concurrent use.
type Log struct {
	path string
	lost func() // is called for each line that is lost

	openFile func(path string) (*os.File, error)

	pending chan []byte
	stop    func() // ends the writer, once
	stopped <-chan struct{}
	ended   chan struct{} // the writer has ended

	mu     sync.RWMutex // to write closed: no line comes any more
	closed bool

	losing atomic.Int64 // lines lost in a row

	file *os.File // of the writer alone; nil = none is open
}

var (
	errIrregular = errors.New("is not a regular file")
	errSlow      = fmt.Errorf("%d lines wait to be written", maxPending)
	errClosed    = errors.New("it is closed")
)

// Open starts to write to the file, which is made where there is none. lost is called
// for each line that is lost, from any goroutine. The error says why there can be no
// such file; a disk that takes none now, or hangs, is none. The caller closes the log.
func Open(path string, lost func()) (*Log, error) { return open(path, lost, openFile) }

func open(path string, lost func(), openFile func(path string) (*os.File, error)) (*Log, error) {
	stopped := make(chan struct{})
	l := &Log{
		path: path, lost: lost, openFile: openFile, pending: make(chan []byte, maxPending),
		stop: sync.OnceFunc(func() { close(stopped) }), stopped: stopped, ended: make(chan struct{}),
	}
	opened := make(chan error, 1)
	go func() {
		opened <- l.reopen()
		l.write()
	}()
	select {
	case err := <-opened:
		if err != nil && isMistake(err) {
			return nil, errors.Join(fmt.Errorf("audit_log: %w", err), l.Close())
		}
		if err != nil {
			prefixlog.L().WithError(err).Errorf("the audit log %s cannot be opened: decisions are not recorded", path)
		}
	case <-time.After(openTime):
		prefixlog.L().Errorf("the audit log %s is not open after %v: decisions are not recorded yet", path, openTime)
	}
	return l, nil
}

// openFile opens nothing that could keep the writer waiting, such as a FIFO.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, fileMode)
}

// mistakes are errors of a path at which there can be no log. All others are of the disk, which may be full, broken, read-only
// or away.
var mistakes = []error{
	errIrregular, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL,
	syscall.ENXIO, // a socket
}

func isMistake(err error) bool {
	return slices.ContainsFunc(mistakes, func(e error) bool { return errors.Is(err, e) })
}

// Observe appends the line of an outcome, soon. It returns at once.
func (l *Log) Observe(_ context.Context, o engine.Outcome) {
	data, err := json.Marshal(lineOf(o, time.Now()))
	if err != nil {
		l.lost() // there is no such line: all of its values are text or finite numbers
		return
	}
	if err := l.enqueue(append(data, '\n')); err != nil {
		l.lose(err)
	}
}

// enqueue has a line written before the log is closed. The error says why it is lost.
func (l *Log) enqueue(line []byte) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	select {
	case l.pending <- line:
		return nil
	default:
		return errSlow
	}
}

// lose counts a line that is lost, and tells of the first in a row.
func (l *Log) lose(why error) {
	if l.losing.Add(1) == 1 {
		prefixlog.L().WithError(why).Errorf("the audit log %s cannot be written: decisions are not recorded", l.path)
	}
	l.lost()
}

// Losing returns how many lines in a row were lost up to now; 0 = lines are written, or
// there is no log. A nil Log loses none.
func (l *Log) Losing() int {
	if l == nil {
		return 0
	}
	return int(l.losing.Load())
}

// Close writes what is pending, for a short time at most, and closes the file. A nil
// Log has none.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	select {
	case <-l.ended:
		return nil
	case <-time.After(closeTime):
		return fmt.Errorf("the audit log %s does not take its last lines", l.path)
	}
}

// write writes lines as they come, until the log is closed.
func (l *Log) write() {
	defer close(l.ended)
	for {
		select {
		case line := <-l.pending:
			l.append(line)
		case <-l.stopped:
			for {
				select {
				case line := <-l.pending:
					l.append(line)
				default:
					if l.file != nil {
						_ = l.file.Close() // each line has been written by itself
					}
					return
				}
			}
		}
	}
}

// append writes one line, or loses it. It tells when it begins to lose lines, and
// when that is over.
func (l *Log) append(line []byte) {
	err := l.reopen()
	if err == nil {
		err = appendTo(l.file, line)
	}
	if err != nil {
		l.lose(err)
		return
	}
	if len(l.pending) > 0 {
		return // more may be lost, as long as the disk is slow
	}
	if n := l.losing.Swap(0); n > 0 {
		prefixlog.L().Warnf("the audit log %s is written again: %s not recorded", l.path, plural.Do(int(n), "decision", "was", "were"))
	}
}

// appendTo writes the whole line or nothing: half of one would spoil the next.
func appendTo(f *os.File, line []byte) error {
	before, err := f.Stat()
	if err != nil {
		return err
	}
	n, err := f.Write(line)
	if err != nil && n > 0 {
		err = errors.Join(err, f.Truncate(before.Size()))
	}
	return err
}

// endLine ends the last line of a file of that size, which a crash of the machine may have
// cut short: it must not spoil the next one.
func endLine(f *os.File, size int64) error {
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := f.Write([]byte{'\n'})
	return err
}

// reopen opens the file that has the path now: a rotation renames or removes the one
// before, and the disk of the one that is open may have been taken away: then nothing is known of it for good.
func (l *Log) reopen() error {
	if l.file != nil {
		open, gone := l.file.Stat()
		now, err := os.Stat(l.path)
		if gone == nil && err == nil && os.SameFile(open, now) {
			return nil
		}
		_ = l.file.Close() // each line has been written by itself
		l.file = nil
	}
	f, err := l.openFile(l.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: l.path, Err: errIrregular}
	}
	if err == nil {
		err = endLine(f, info.Size())
	}
	if err != nil {
		_ = f.Close() // no line was written
		return err
	}
	l.file = f
	return nil
}
