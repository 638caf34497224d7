// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

const slow = "# slow\n"

// slowDir has files that begin with slow parsed only when they may be.
type slowDir struct {
	*Dir
	t   *testing.T
	may chan struct{} // a value lets one file be parsed
	// parsings are those that have begun since the last look at them.
	parsings atomic.Int32
	told     chan answer // what calls of ask have got
}

// answer is that of a call.
type answer struct {
	rules *policy.Rules
	err   error
}

func (a answer) String() string {
	e, err := a.rules.For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}})
	return fmt.Sprint(e.Policy, ", ", errors.Join(a.err, err))
}

// openSlow opens a directory that has the default alone.
func openSlow(t *testing.T) *slowDir {
	t.Helper()
	s := &slowDir{t: t, may: make(chan struct{}), told: make(chan answer, 100)}
	d, err := Open(Options{Path: t.TempDir(), parseFile: func(file string, data []byte) ([]policy.Rule, error) {
		s.parsings.Add(1)
		if strings.HasPrefix(string(data), slow) {
			<-s.may
		}
		return policy.ParseRules(file, data)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s.Dir = d
	return s
}

// ask has so many calls wait for the rules of a change.
func (s *slowDir) ask(ctx context.Context, calls int, content string) {
	s.t.Helper()
	writeIn(s.t, s.Path, "10.toml", content)
	for range calls {
		go func() {
			rules, err := s.Current(ctx)
			s.told <- answer{rules, err}
		}()
	}
	synctest.Wait()
}

// want fails unless a call has got that answer.
func (s *slowDir) want(answer string) {
	s.t.Helper()
	synctest.Wait()
	select {
	case a := <-s.told:
		if got := a.String(); got != answer {
			s.t.Errorf("got %s, want %s", got, answer)
		}
	default:
		s.t.Errorf("there is no answer yet, want %s", answer)
	}
}

// TestChangeIsParsedOnce has calls that come together after a change, and those after them, wait for one parsing of the
// files, whether they have a mistake or not.
func TestChangeIsParsedOnce(t *testing.T) {
	for what, tc := range map[string]struct{ change, want string }{
		"good":     {slow + never, "Never, <nil>"},
		"mistaken": {slow + mistake, "Always, <nil>"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openSlow(t)
				s.ask(t.Context(), 50, tc.change)
				if n := s.parsings.Load(); n != 1 || len(s.told) > 0 {
					t.Errorf("%d parsings, and %d calls have an answer before them", n, len(s.told))
				}
				close(s.may)
				for range 50 {
					s.want(tc.want)
				}
				s.ask(t.Context(), 1, tc.change)
				s.want(tc.want)
				if n := s.parsings.Load(); n != 1 {
					t.Errorf("the same files were parsed %d times", n)
				}
			})
		})
	}
}

// TestCallLeavesAParsing has a call leave with its context, and the parsing go on for the next one.
func TestCallLeavesAParsing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSlow(t)
		ctx, leave := context.WithCancel(t.Context())
		s.ask(ctx, 1, slow+never)
		leave()
		s.want("Always, context canceled")
		s.ask(t.Context(), 1, slow+never)
		s.may <- struct{}{}
		s.want("Never, <nil>")
		if n := s.parsings.Load(); n != 1 {
			t.Errorf("%d parsings", n)
		}
	})
}

// TestChangeWhileOneIsParsed has a call that comes after a change decided by that, although an earlier one is parsed
// meanwhile, or taken while it waits itself; a mistake leaves the rules that were taken last.
func TestChangeWhileOneIsParsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSlow(t)
		s.ask(t.Context(), 1, slow+never)
		s.ask(t.Context(), 1, strings.ReplaceAll(never, "Never", "IfNotPresent"))
		s.want("IfNotPresent, <nil>")
		s.may <- struct{}{}
		s.want("IfNotPresent, <nil>") // of the first call: rules that are as new as the second one's do, too
	})
	for what, tc := range map[string]struct{ change, want string }{
		"good":     {slow + always, "Always, <nil>"},
		"mistaken": {slow + mistake, "Never, <nil>"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openSlow(t)
				s.ask(t.Context(), 1, slow+never)
				s.ask(t.Context(), 1, tc.change)
				s.may <- struct{}{} // the first is parsed first, since it came first
				s.want("Never, <nil>")
				s.may <- struct{}{}
				s.want(tc.want)
				if got := (answer{s.InForce(), nil}).String(); got != tc.want {
					t.Errorf("in force is %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestMistakesThatAreTold bounds what is told of a generated file with the same mistake in each rule.
func TestMistakesThatAreTold(t *testing.T) {
	r := newRules(t, t.TempDir())
	for more, want := range map[int]string{0: "rule[64].polcy: ", 36: "36 more mistakes: pullwarden check names them all"} {
		r.write("10.toml", strings.Repeat(mistake, maxMistakes+more))
		state, err := r.State(t.Context())
		if err != nil || state.Err == nil {
			t.Fatal(state.Err, err)
		}
		lines := strings.Split(state.Err.Error(), "\n")
		if last := lines[len(lines)-1]; len(lines) != maxMistakes+min(more, 1) || !strings.Contains(last, want) {
			t.Errorf("%d lines, the last of them %s", len(lines), last)
		}
	}
}
