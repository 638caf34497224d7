// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"regexp"
	"strings"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// checker collects findings.
type checker struct {
	Report
	unlimited bool // a config.toml was read, and bounds no pinned images
	pins      bool // the section or a rule pins images
}

// sectionPath is what the keys of pullwarden's section begin with in config.toml.
var sectionPath = tomlfile.Path("plugins", config.Plugin) + "."

// document is a file with the places of its keys.
type document struct {
	*checker
	file      string
	data      []byte
	positions map[string]tomlfile.Position
	hosts     bool // it is a hosts.toml, which may name users of hosts that are no URLs
}

// open reads a file. It reports one that cannot be read, and returns nil.
func (c *checker) open(file string) *document {
	data, _, err := filestamp.ReadFile(file)
	if err != nil {
		c.unreadable(file, err)
		return nil
	}
	return c.document(file, data)
}

// unreadable reports a file or directory that cannot be read.
func (c *checker) unreadable(file string, err error) {
	c.Files++
	(&document{checker: c, file: file}).add(Unreadable, "", tomlfile.Position{}, err.Error())
}

func (c *checker) document(file string, data []byte) *document {
	c.Files++
	positions, _ := tomlfile.Positions(data) // whoever decodes it reports the error
	return &document{checker: c, file: file, data: data, positions: positions}
}

// has reports whether the file has a key.
func (d *document) has(path string) bool {
	_, ok := d.positions[path]
	return ok
}

// add reports something at a place.
func (d *document) add(id ID, key string, at tomlfile.Position, text string) {
	d.Findings = append(d.Findings, Finding{
		ID: id, Severity: id.Severity(), File: d.file, Line: at.Line, Column: at.Column,
		Key: d.withoutSecrets(strings.TrimPrefix(key, sectionPath)), Text: d.withoutSecrets(text),
	})
}

// userInfo is where URLs have credentials that no quotes are around.
var userInfo = regexp.MustCompile(`://[^/\s"]*@`)

func (d *document) withoutSecrets(text string) string {
	cut := redact.QuotedURLs
	if d.hosts {
		cut = redact.QuotedUsers
	}
	return userInfo.ReplaceAllString(cut(text), "://")
}

// addAt reports something at the first of the keys that the file has, and else of
// the file as a whole.
func (d *document) addAt(id ID, text string, paths ...string) {
	for _, path := range paths {
		if at, ok := d.positions[path]; ok {
			d.add(id, path, at, text)
			return
		}
	}
	d.add(id, "", tomlfile.Position{}, text)
}

// errors reports each problem that a parser has found.
func (d *document) errors(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range joined.Unwrap() {
			d.errors(inner)
		}
		return
	}
	problem, ok := errors.AsType[*tomlfile.Error](err)
	if !ok {
		d.add(BadValue, "", tomlfile.Position{}, err.Error())
		return
	}
	id := map[tomlfile.Kind]ID{tomlfile.UnknownKey: UnknownKey, tomlfile.BadSyntax: BadSyntax, tomlfile.BadValue: BadValue}[problem.Kind]
	d.add(id, problem.Key, tomlfile.Position{Line: problem.Line, Column: problem.Column}, problem.Message)
}
