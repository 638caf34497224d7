// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxDepth bounds the paths that are kept: a problem of a key that is nested
// deeper is reported at its nearest ancestor.
const maxDepth = 16

// Position is a place in a file.
type Position struct {
	Line   int // counted from 1
	Column int // in bytes, counted from 1
}

// Path spells the path of a key: bare keys as they are, others quoted, joined
// by dots, as in host."https://mirror:5000".ca.
func Path(keys ...string) string {
	path := ""
	for _, key := range keys {
		path = child(path, key)
	}
	return path
}

// Element is the path of an array's element, counted from 1.
func Element(path string, number int) string {
	return path + "[" + strconv.Itoa(number) + "]"
}

func child(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	}) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Positions returns where each key, table and array element of a TOML document
// stands, by its path: rule[2].on.unreachable, rule[2].images[1],
// host."https://mirror:5000".ca. Elements of arrays and of arrays of tables
// count from 1. A path that is mentioned more than once has the position of the
// first mention. The error, an [*Error] without File, is one of syntax; the positions
// found before it are returned with it.
func Positions(data []byte) (map[string]Position, error) {
	ix := index{
		data:   data,
		found:  map[string]Position{},
		tables: map[string]int{},
	}
	for at, b := range ix.data {
		if b == '\n' {
			ix.newlines = append(ix.newlines, at)
		}
	}
	ix.parser.Reset(ix.data)
	for table := (place{}); ix.parser.NextExpression(); {
		switch node := ix.parser.Expression(); node.Kind {
		case unstable.KeyValue:
			ix.keyValue(table, node)
		case unstable.Table, unstable.ArrayTable:
			table = ix.header(node)
		}
	}
	if err := ix.parser.Error(); err != nil {
		return ix.found, syntaxError(data, err)
	}
	return ix.found, nil
}

// Tables returns the paths, key by key, of the tables of a TOML document that have a [header] of
// their own, in their order. Of a document that does not parse, it returns those before the error.
func Tables(data []byte) (paths [][]string) {
	var parser unstable.Parser
	parser.Reset(data)
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind != unstable.Table {
			continue
		}
		var path []string
		for key := node.Key(); key.Next(); {
			path = append(path, string(key.Node().Data))
		}
		paths = append(paths, path)
	}
	return paths
}

// syntaxError adds the position to an error of the parser, which only the
// decoder tells.
func syntaxError(data []byte, err error) *Error {
	if derr := toml.Unmarshal(data, new(map[string]any)); derr != nil {
		err = derr
	}
	return documentError("", err)
}

type index struct {
	parser   unstable.Parser
	data     []byte
	newlines []int // their offsets
	found    map[string]Position
	tables   map[string]int // arrays of tables: how many so far
}

// place is a path and how deep it is.
type place struct {
	path  string
	depth int
}

func (ix *index) position(offset int) Position {
	before, _ := slices.BinarySearch(ix.newlines, offset)
	start := 0
	if before > 0 {
		start = ix.newlines[before-1] + 1
	}
	return Position{Line: before + 1, Column: offset - start + 1}
}

func (ix *index) add(path string, at unstable.Range) {
	if _, ok := ix.found[path]; !ok {
		ix.found[path] = ix.position(int(at.Offset))
	}
}

// header enters the table that a [header] or [[header]] opens.
func (ix *index) header(node *unstable.Node) place {
	p := place{}
	for key := node.Key(); key.Next() && p.depth < maxDepth; p.depth++ {
		p.path = child(p.path, string(key.Node().Data))
		ix.add(p.path, key.Node().Raw)
		if node.Kind == unstable.ArrayTable && key.IsLast() {
			ix.tables[p.path]++
		}
		if n := ix.tables[p.path]; n > 0 {
			p.path = Element(p.path, n)
			ix.add(p.path, key.Node().Raw)
		}
	}
	return p
}

func (ix *index) keyValue(p place, node *unstable.Node) {
	for key := node.Key(); key.Next() && p.depth < maxDepth; p.depth++ {
		p.path = child(p.path, string(key.Node().Data))
		ix.add(p.path, key.Node().Raw)
	}
	ix.value(p, node.Value())
}

func (ix *index) value(p place, node *unstable.Node) {
	if p.depth >= maxDepth {
		return
	}
	number := 0
	for it := node.Children(); it.Next(); {
		n := it.Node()
		switch node.Kind {
		case unstable.InlineTable:
			ix.keyValue(p, n)
		case unstable.Array:
			number++
			element := place{path: Element(p.path, number), depth: p.depth + 1}
			// Nested arrays have no range of their own.
			if n.Kind != unstable.Array {
				ix.add(element.path, n.Raw)
			}
			ix.value(element, n)
		}
	}
}
