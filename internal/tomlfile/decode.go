// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Finisher is a struct with checks beyond those of its fields' types. FinishTOML
// is called on a pointer to it once its table is decoded. It may derive values
// from several fields, and reports each problem with the key in its table (dotted
// for keys of tables within). A problem of a key that could not be decoded in the
// first place is not reported again.
type Finisher interface {
	FinishTOML(report func(key, problem string))
}

// Decode reads the TOML document data into into, a pointer to a struct whose
// fields name their keys with toml tags (a field without a tag is not read;
// embedded structs lend their fields). Fields may be strings, booleans,
// signed integers, floats, structs, pointers, slices, maps with keys that are strings (and may check themselves as text),
// any, and types that implement encoding.TextUnmarshaler, which get strings only.
// Structs may be a [Finisher].
//
// If strict, keys are matched to the letter and one that into does not have is
// an error that lists those it has; otherwise case does not matter and unknown
// keys are passed over, as go-toml does.
//
// The error joins an [*Error] for each problem, with file and position; nil
// means none. Even with an error, into has all that could be decoded.
func Decode(file string, data []byte, into any, strict bool) error {
	return DecodeTable(file, data, into, strict)
}

// DecodeTable is [Decode] for one table of a document, whose path is given key by
// key. Where it is absent, into is left as it is, which is no error. The keys of
// errors are those of the whole document.
func DecodeTable(file string, data []byte, into any, strict bool, table ...string) error {
	tree := map[string]any{}
	if err := toml.Unmarshal(data, &tree); err != nil {
		return documentError(file, err)
	}
	positions, err := Positions(data)
	if err != nil {
		return documentError(file, err)
	}
	d := decoder{file: file, strict: strict, positions: positions}
	var (
		value any = tree
		where at
	)
	for _, key := range table {
		parent, ok := value.(map[string]any)
		if !ok {
			break // assign says what should be there
		}
		if value, ok = parent[key]; !ok {
			return nil
		}
		where = d.down(where, child(where.path, key))
	}
	d.assign(reflect.ValueOf(into).Elem(), value, where)
	return Join(d.errs...)
}

// documentError returns an error of go-toml as one of the file: of its syntax,
// or of keys that are set twice.
func documentError(file string, err error) *Error {
	e := &Error{File: file, Kind: BadSyntax, Message: quotedNumber.ReplaceAllString(strings.TrimPrefix(err.Error(), "toml: "), "")}
	if derr, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.Line, e.Column = derr.Position() // its key lacks the table, its message names it
		if m := named.FindStringSubmatch(e.Message); m != nil {
			e.Message = m[1] + " " + child("", m[2]) + " " + m[3]
		}
	}
	return e
}

// named are messages of go-toml that name a key, or one of the tables that it is in, as it is: they
// quote it as others do, since it may be a URL with a password.
var named = regexp.MustCompile(`(?s)^(key|table) (.*) (is already defined|already exists.*|should be a table, not a .*)$`)

// quotedNumber is what go-toml's messages have of a value: a number out of range, as strconv
// quotes it. A secret that lacks its quotes may be one, such as 61e83219.
var quotedNumber = regexp.MustCompile(`strconv\.\w+: parsing ".*": `)

type decoder struct {
	file      string
	strict    bool
	positions map[string]Position
	errs      []*Error
}

// at is a path and its position, or that of its nearest ancestor that has one.
type at struct {
	path string
	pos  Position
}

func (d *decoder) down(from at, path string) at {
	if pos, ok := d.positions[path]; ok {
		return at{path, pos}
	}
	return at{path, from.pos}
}

func (d *decoder) fail(where at, format string, args ...any) {
	d.report(where, BadValue, fmt.Sprintf(format, args...))
}

func (d *decoder) report(where at, kind Kind, message string) {
	d.errs = append(d.errs, &Error{
		File: d.file, Line: where.pos.Line, Column: where.pos.Column,
		Key: where.path, Message: message, Kind: kind,
	})
}

// assign puts a value as go-toml decodes it into any (map[string]any, []any,
// string, int64, float64, bool, the date types) into v.
func (d *decoder) assign(v reflect.Value, value any, where at) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.assign(v.Elem(), value, where)
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := value.(string)
		if !ok {
			d.fail(where, "is %s: must be a string", describe(value))
		} else if err := u.UnmarshalText([]byte(text)); err != nil {
			d.fail(where, "%s", err)
		}
		return
	}
	switch typed := value.(type) {
	case map[string]any:
		if v.Kind() == reflect.Struct {
			d.assignStruct(v, typed, where)
			return
		}
		if v.Kind() == reflect.Map {
			d.assignMap(v, typed, where)
			return
		}
	case []any:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(typed), len(typed)))
			for i, element := range typed {
				d.assign(v.Index(i), element, d.down(where, Element(where.path, i+1)))
			}
			return
		}
	case int64:
		if v.CanInt() && !v.OverflowInt(typed) {
			v.SetInt(typed)
			return
		}
	}
	if from := reflect.ValueOf(value); from.Type().AssignableTo(v.Type()) {
		v.Set(from)
	} else if from.Kind() == v.Kind() && from.CanConvert(v.Type()) {
		v.Set(from.Convert(v.Type())) // a named string or boolean
	} else {
		d.fail(where, "is %s: must be %s", describe(value), expectation(v.Type(), where.path))
	}
}

func (d *decoder) assignMap(v reflect.Value, table map[string]any, where at) {
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(table)))
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		here := d.down(where, child(where.path, key))
		name := reflect.New(v.Type().Key())
		if u, ok := name.Interface().(encoding.TextUnmarshaler); !ok {
			name.Elem().SetString(key)
		} else if err := u.UnmarshalText([]byte(key)); err != nil {
			d.report(here, UnknownKey, err.Error())
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.assign(element, table[key], here)
		v.SetMapIndex(name.Elem(), element)
	}
}

func (d *decoder) assignStruct(v reflect.Value, table map[string]any, where at) {
	fields, before := fieldsOf(v.Type()), len(d.errs)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		here := d.down(where, child(where.path, key))
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 && !d.strict {
			i = slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.key, key) })
		}
		switch {
		case i >= 0:
			d.assign(v.FieldByIndex(fields[i].index), table[key], here)
		case d.strict:
			allowed := make([]string, len(fields))
			for i, f := range fields {
				allowed[i] = f.key
			}
			d.report(here, UnknownKey, Unknown(key, allowed))
		}
	}
	if f, ok := v.Addr().Interface().(Finisher); ok {
		f.FinishTOML(func(key, problem string) {
			path := key
			if where.path != "" {
				path = where.path + "." + key
			}
			// Only the problems of this table are looked at: a generated file may have the same one in each of thousands.
			elements := path + "["
			if !slices.ContainsFunc(d.errs[before:], func(e *Error) bool { return e.Key == path || strings.HasPrefix(e.Key, elements) }) {
				d.fail(d.down(where, path), "%s", problem)
			}
		})
	}
}

type field struct {
	key   string
	index []int
}

// fieldsOf lists the fields of a struct that have toml tags, in their order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		if f.IsExported() && key != "" && key != "-" {
			fields = append(fields, field{key, f.Index})
		}
	}
	return fields
}

// describe names the kind of a value, for "is …". A number itself may be a secret that lacks its
// quotes, or that stands in the place of a table.
func describe(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "a table"
	case []any:
		return "an array"
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return strconv.FormatBool(value)
	}
	return "a date or time"
}

// expectation names the kind of value that a type takes, for "must be …".
func expectation(t reflect.Type, path string) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a table"
	case reflect.Slice:
		elem := t.Elem()
		if elem.Kind() == reflect.Struct && !reflect.PointerTo(elem).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return fmt.Sprintf("an array of tables: write [[%s]]", path)
		}
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a float"
	}
	return "an integer that fits " + t.String()
}
