// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rulesync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/plugin/rules"
)

const (
	// caseSuffix ends the name of a file of cases. Every other file has rules.
	caseSuffix = ".test.toml"
	ruleSuffix = ".toml"
	// currentVersion is the link to the newest version of a volume, which the kubelet exchanges
	// by a rename.
	currentVersion = "..data"
	// maxReads is how often a source is read that is exchanged meanwhile.
	maxReads = 5

	heading = "# Written by pullwarden sync-rules. What is changed here is undone: change the source.\n"
)

// source is one version of the rules and of their cases, each in the order of names.
type source struct {
	rules, cases []rules.File // their paths are bare names
}

// fileName is what the keys of a ConfigMap are made of.
var fileName = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// errExchanged says that the source did not stay the same for as long as it was read.
var errExchanged = errors.New("the source is exchanged all the time")

// errNothing says that a directory has nothing, not even a mounted ConfigMap without rules.
var errNothing = errors.New("there is neither a rule file nor a mounted ConfigMap")

// read returns one version of a source, never parts of two, or a part of one: a mounted
// volume has a directory for each version, which the kubelet begins to remove only once the
// link leads to the next one. Names that begin with a dot are passed over.
func read(from string) (source, error) {
	for range maxReads {
		before, err := version(from)
		if err != nil {
			return source{}, err
		}
		s, err := readVersion(before)
		after, afterErr := version(from)
		if afterErr != nil {
			return source{}, afterErr
		}
		if before != after {
			continue
		}
		if before == from && err == nil && len(s.rules) == 0 {
			return source{}, fmt.Errorf("%s: %w", from, errNothing)
		}
		return s, err
	}
	return source{}, errExchanged
}

// version returns the directory of the newest version of a source: itself, where it is no
// mounted volume.
func version(from string) (string, error) {
	target, err := filepath.EvalSymlinks(filepath.Join(from, currentVersion))
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	return target, err
}

func readVersion(dir string) (source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return source{}, err
	}
	var s source
	size := 0
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
			continue
		case !fileName.MatchString(name):
			return source{}, fmt.Errorf("%q: allowed in the name of a file are letters, digits, '-', '_' and '.'", name)
		case !strings.HasSuffix(name, ruleSuffix):
			return source{}, fmt.Errorf("%q is neither a rule file nor one of cases: their names end in %s and %s", name, ruleSuffix, caseSuffix)
		}
		data, _, err := filestamp.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return source{}, err
		}
		if size += len(data); size > filestamp.MaxFile/2 {
			return source{}, fmt.Errorf("the files are larger than %d bytes together", filestamp.MaxFile/2)
		}
		if strings.HasSuffix(name, caseSuffix) {
			s.cases = append(s.cases, rules.File{Path: name, Data: data})
		} else {
			s.rules = append(s.rules, rules.File{Path: name, Data: data})
		}
	}
	return s, nil
}

// render returns all rules as one file, with the name of each file above its rules.
func (s *source) render() string {
	var b strings.Builder
	b.WriteString(heading)
	for _, f := range s.rules {
		fmt.Fprintf(&b, "\n# %s\n%s", f.Path, f.Data)
		if len(f.Data) > 0 && f.Data[len(f.Data)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func isOurs(text []byte) bool { return strings.HasPrefix(string(text), heading) }
