// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// FileError says what is wrong in a hosts.toml, or in a file that it names.
type FileError struct {
	File string // its path
	Line int    // of the first problem, counted from 1; 0 = the file as a whole
	Err  error  // all problems, with their places
}

// Error names file and line of each problem, on one line. It has no credentials of
// URLs, and an end.
func (e *FileError) Error() string {
	return clean("hosts configuration: " + strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

// clean makes a text fit for a log, which may quote hosts as a file spells them.
func clean(text string) string { return new(redact.Redactor).Clean(redact.QuotedUsers(text)) }

func (e *FileError) Unwrap() error { return e.Err }

// fileError says that what a host directory says cannot be used.
func fileError(dir, name string, err error) error {
	if dir == "" {
		return fmt.Errorf("hosts of %s: %w", name, err)
	}
	file := filepath.Join(dir, fileName)
	if _, missing := os.Stat(file); missing != nil {
		file = dir
	}
	return &FileError{File: file, Err: fmt.Errorf("%s: %w", file, err)}
}

const fileName = "hosts.toml"

// readText reads hosts.toml in dir; nothing where there is none.
func readText(dir string) ([]byte, error) {
	file := filepath.Join(dir, fileName)
	text, _, err := filestamp.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{File: file, Err: err}
	}
	return text, nil
}

// parse refuses what containerd refuses in the hosts.toml of dir, and names that are no text. It allows what
// containerd allows: unknown keys, keys in any case. Nothing is in the result of an
// empty text.
func parse(dir string, text []byte) (*hostsFile, error) {
	if len(text) == 0 {
		return &hostsFile{}, nil
	}
	c := checker{file: filepath.Join(dir, fileName)}
	if err := c.check(text); err != nil {
		e := &FileError{File: c.file, Err: err}
		if first, ok := errors.AsType[*tomlfile.Error](err); ok {
			e.Line = first.Line
		}
		return nil, e
	}
	return &c.hosts, nil
}

// hostsFile mirrors containerd's own type. The types of the fields, and the
// checker, check what containerd's parser checks after decoding.
type hostsFile struct {
	hostEntry
	Server serverURL            `toml:"server"`
	Hosts  map[string]hostEntry `toml:"host"`
}

type hostEntry struct {
	Capabilities []capability   `toml:"capabilities"`
	CA           any            `toml:"ca"`
	Client       any            `toml:"client"`
	SkipVerify   *bool          `toml:"skip_verify"`
	Header       map[string]any `toml:"header"`
	OverridePath bool           `toml:"override_path"`
	DialTimeout  dialTimeout    `toml:"dial_timeout"`
}

type capability string

var capabilities = []string{"pull", "resolve", "push", "referrers"}

func (capability) UnmarshalText(text []byte) error {
	if !slices.Contains(capabilities, strings.ToLower(string(text))) {
		return fmt.Errorf("unknown capability %q: allowed are %s", text, strings.Join(capabilities, ", "))
	}
	return nil
}

type dialTimeout string

func (dialTimeout) UnmarshalText(text []byte) error {
	if _, err := time.ParseDuration(string(text)); err != nil && len(text) > 0 {
		return fmt.Errorf("is %q: must be a duration such as \"5s\"", text)
	}
	return nil
}

type serverURL string

func (s *serverURL) UnmarshalText(text []byte) error {
	if !validServer(string(text)) {
		return fmt.Errorf("is %q: must be a URL such as \"https://registry.example.com\"", redact.RawURL(string(text)))
	}
	*s = serverURL(text)
	return nil
}

// validServer reports whether containerd can use a host, and whether its name is text: nothing can ask
// another, and metrics and labels cannot have it.
func validServer(server string) bool {
	u, err := url.Parse(withScheme(server))
	return err == nil && utf8.ValidString(u.Host)
}

// withScheme is how containerd reads a host.
func withScheme(host string) string {
	if !strings.HasPrefix(host, "http") {
		return "https://" + host
	}
	return host
}

type checker struct {
	file      string
	hosts     hostsFile
	positions map[string]tomlfile.Position
	errs      []*tomlfile.Error
}

func (c *checker) check(data []byte) error {
	if err := tomlfile.Decode(c.file, data, &c.hosts, false); err != nil {
		return err
	}
	var err error
	if c.positions, err = tomlfile.Positions(data); err != nil {
		return err
	}
	c.entry(nil, c.hosts.hostEntry)
	for name, entry := range c.hosts.Hosts {
		if !validServer(name) {
			c.fail([]string{"host", name}, "the host must be a URL such as \"https://mirror.example.com\"")
		}
		c.entry([]string{"host", name}, entry)
	}
	return tomlfile.Join(c.errs...)
}

// fail reports a problem at the nearest key that has a position.
func (c *checker) fail(keys []string, message string) {
	e := &tomlfile.Error{File: c.file, Key: tomlfile.Path(keys...), Message: message}
	for n := len(keys); n > 0; n-- {
		if at, ok := c.positions[tomlfile.Path(keys[:n]...)]; ok {
			e.Line, e.Column = at.Line, at.Column
			break
		}
	}
	c.errs = append(c.errs, e)
}

func (c *checker) entry(table []string, e hostEntry) {
	key := func(name ...string) []string { return slices.Concat(table, name) }
	if e.CA != nil && !isStrings(e.CA) {
		c.fail(key("ca"), "must be a file name, or an array of file names")
	}
	if e.Client != nil && !isClient(e.Client) {
		c.fail(key("client"), "must be a file name, an array of file names, or an array of pairs of file names")
	}
	for name, value := range e.Header {
		if !isStrings(value) {
			c.fail(key("header", name), "must be a string, or an array of strings")
		}
	}
}

// isStrings reports whether a value is a string or an array of strings.
func isStrings(value any) bool {
	if list, ok := value.([]any); ok {
		return !slices.ContainsFunc(list, func(v any) bool { return !isString(v) })
	}
	return isString(value)
}

func isString(value any) bool {
	_, ok := value.(string)
	return ok
}

func isClient(value any) bool {
	list, ok := value.([]any)
	if !ok {
		return isString(value)
	}
	return !slices.ContainsFunc(list, func(v any) bool {
		pair, ok := v.([]any)
		return ok && len(pair) != 2 || !isStrings(v)
	})
}
