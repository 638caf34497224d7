// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flavour reads itself from text and refuses most of it.
type flavour string

func (f *flavour) UnmarshalText(text []byte) error {
	if s := string(text); s != "sweet" && s != "sour" {
		return fmt.Errorf("%q: allowed are sweet, sour", text)
	}
	*f = flavour(text)
	return nil
}

type common struct {
	Size *int8 `toml:"size,omitempty"`
}

type fruit struct {
	Names   []string  `toml:"names"`
	Flavour flavour   `toml:"flavour"`
	Others  []flavour `toml:"others"`
	Peeled  bool      `toml:"peeled"`
	Weight  float64   `toml:"weight"`
	Grower  struct {
		Name string `toml:"name"`
	} `toml:"grower"`
	common
	Untagged string
	hidden   string //nolint:unused // that it is not used is what is tested
}

func (f *fruit) FinishTOML(report func(key, problem string)) {
	if f.Names == nil {
		report("names", "is required")
	}
	if f.Grower.Name == "nobody" {
		report("grower.name", "must be somebody")
	}
}

type basket struct {
	Fruit []fruit          `toml:"fruit"`
	Host  map[string]fruit `toml:"host"`
	Any   any              `toml:"any"`
}

func TestDecode(t *testing.T) {
	doc := `
any = ["x", 1]
[[fruit]]
names = ["a", 'b']
flavour = "sour"
others = ["sweet", "sour"]
size = 3
peeled = true
weight = 1.5
[fruit.grower]
name = "n"
[[fruit]]
names = []
grower.name = "m"
[host."https://mirror:5000"]
names = ["c"]
flavour = "sweet"
`
	var got basket
	if err := Decode("f.toml", []byte(doc), &got, true); err != nil {
		t.Fatal(err)
	}
	first := fruit{
		Names: []string{"a", "b"}, Flavour: "sour", Others: []flavour{"sweet", "sour"},
		common: common{Size: new(int8(3))}, Peeled: true, Weight: 1.5,
	}
	first.Grower.Name = "n"
	second := fruit{Names: []string{}}
	second.Grower.Name = "m"
	want := basket{
		Fruit: []fruit{first, second},
		Host:  map[string]fruit{"https://mirror:5000": {Names: []string{"c"}, Flavour: "sweet"}},
		Any:   []any{"x", int64(1)},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fruit{}, common{})); diff != "" {
		t.Error(diff)
	}
}

// decodeErrors is a document and the lines of its error.
type decodeErrors struct {
	name, doc string
	want      []string
}

func (test decodeErrors) run(t *testing.T) {
	err := Decode("f.toml", []byte(test.doc), &basket{}, true)
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.File != "f.toml" || e.Line == 0 || e.Error() != test.want[0] {
		t.Errorf("errors.As finds %+v", e)
	}
}

func TestDecodeErrors(t *testing.T) {
	const fruitKeys = "names, flavour, others, peeled, weight, grower, size"
	for _, test := range []decodeErrors{
		{"syntax", "a = 1\nb = = 2\n", []string{"f.toml:2:5: unexpected character U+003D '=' at start of value"}},
		{"number out of range", "a = 61e8_3219\n", []string{"f.toml:1:5: unable to parse float: value out of range"}},
		{"end of file", "[fruit", []string{"f.toml:1:6: expected ']' to close table name"}},
		{"twice", "[[fruit]]\npeeled = true\npeeled = true\n", []string{
			"f.toml:3:1: key peeled is already defined",
		}},
		{"finish", "[[fruit]]\n[[fruit]]\nnames = ['a']\ngrower.name = 'nobody'\n[host.h]\nnames = [1]\n[host.i]\nnames = 1\n", []string{
			"f.toml:1:3: fruit[1].names: is required",
			"f.toml:4:8: fruit[2].grower.name: must be somebody",
			"f.toml:6:10: host.h.names[1]: is an integer: must be a string",
			"f.toml:8:1: host.i.names: is an integer: must be an array",
		}},
		{"unknown keys", "colour = 1\n[[fruit]]\n  names = []\n  taste = 1\n", []string{
			"f.toml:1:1: colour: unknown key: allowed are fruit, host, any",
			"f.toml:4:3: fruit[1].taste: unknown key: allowed are " + fruitKeys,
		}},
		{"letter case", "[[Fruit]]\n", []string{"f.toml:1:3: Fruit: unknown key (did you mean fruit?): allowed are fruit, host, any"}},
		{"untagged and unexported", "[[fruit]]\nnames = []\nUntagged = ''\nhidden = ''\n", []string{
			"f.toml:3:1: fruit[1].Untagged: unknown key: allowed are " + fruitKeys,
			"f.toml:4:1: fruit[1].hidden: unknown key: allowed are " + fruitKeys,
		}},
		{"unknown in tables", "[[fruit]]\nnames = []\ngrower = { nom = 'n' }\n[host.'a.b']\nnames = []\nx.y = 1\n", []string{
			"f.toml:3:12: fruit[1].grower.nom: unknown key: allowed is name",
			`f.toml:6:1: host."a.b".x: unknown key: allowed are ` + fruitKeys,
		}},
		{"text", "[[fruit]]\nnames = []\n[[fruit]]\nnames = []\nothers = [\n  'sour',\n  'salt']\nflavour = 'bitter'\n", []string{
			`f.toml:7:3: fruit[2].others[2]: "salt": allowed are sweet, sour`,
			`f.toml:8:1: fruit[2].flavour: "bitter": allowed are sweet, sour`,
		}},
	} {
		t.Run(test.name, test.run)
	}
}

func TestDecodeTypeErrors(t *testing.T) {
	for _, test := range []decodeErrors{
		{"types", "[[fruit]]\nnames = 'a'\nflavour = 1\npeeled = 1.5\nsize = 300\nweight = 'x'\ngrower = []\nothers = [[1]]\n", []string{
			"f.toml:2:1: fruit[1].names: is a string: must be an array",
			"f.toml:3:1: fruit[1].flavour: is an integer: must be a string",
			"f.toml:4:1: fruit[1].peeled: is a float: must be true or false",
			"f.toml:5:1: fruit[1].size: is an integer: must be an integer that fits int8",
			"f.toml:6:1: fruit[1].weight: is a string: must be a float",
			"f.toml:7:1: fruit[1].grower: is an array: must be a table",
			"f.toml:8:1: fruit[1].others[1]: is an array: must be a string",
		}},
		{"more types", "fruit = [{ names = [true] }, { names = [1979-05-27] }]\nhost = 1\n", []string{
			"f.toml:1:21: fruit[1].names[1]: is true: must be a string",
			"f.toml:1:41: fruit[2].names[1]: is a date or time: must be a string",
			"f.toml:2:1: host: is an integer: must be a table",
		}},
		{"table for array", "[fruit]\npeeled = true\n", []string{
			"f.toml:1:2: fruit: is a table: must be an array of tables: write [[fruit]]",
		}},
		{"array for table", "[[host]]\n", []string{"f.toml:1:3: host: is an array: must be a table"}},
	} {
		t.Run(test.name, test.run)
	}
}

// The sound parts of a file with problems are decoded, so that callers can
// report their own problems with them too.
func TestDecodeGoesOn(t *testing.T) {
	var got basket
	err := Decode("f.toml", []byte("x = 1\n[[fruit]]\nnames = []\npeeled = 1\nweight = 2.0\n"), &got, true)
	if err == nil || len(got.Fruit) != 1 || got.Fruit[0].Weight != 2 {
		t.Errorf("error %v, decoded %+v", err, got)
	}
}

func TestDecodeLenient(t *testing.T) {
	var got basket
	if err := Decode("f.toml", []byte("x = 1\n[[FRUIT]]\nnames = []\nPeeled = true\ntaste = 1\n"), &got, false); err != nil {
		t.Fatal(err)
	}
	if len(got.Fruit) != 1 || !got.Fruit[0].Peeled {
		t.Errorf("decoded %+v", got)
	}
	err := Decode("f.toml", []byte("x = 1\n[[fruit]]\nnames = []\npeeled = 'yes'\n"), &got, false)
	if want := "f.toml:4:1: fruit[1].peeled: is a string: must be true or false"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzDecode(f *testing.F) {
	for _, doc := range []string{
		"", "a", "[[fruit]]\nnames = ['a']\nflavour = 'x'\n", "[fruit]\n[[fruit]]\n",
		"[host.\"https://mirror:5000\"]\nsize = 300\nsize = 1\n", "fruit = [{ grower = {} }]\n[fruit.grower]\n",
		"any = \"\\u00\"", "any = [[[{a=1}],2", "\xef\xbb\xbfany = 1", "any = 1979-05-27T07:32:00Z\r\n",
	} {
		f.Add([]byte(doc), true)
	}
	f.Fuzz(func(t *testing.T, doc []byte, strict bool) {
		before := string(doc)
		err := Decode("f.toml", doc, &basket{}, strict)
		if string(doc) != before {
			t.Fatal("the document was changed")
		}
		if err == nil {
			return
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			joined = single{err}
		}
		for _, err := range joined.Unwrap() {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.File != "f.toml" || e.Message == "" || e.Line < 0 || e.Line > strings.Count(before, "\n")+1 {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}

type single struct{ err error }

func (s single) Unwrap() []error { return []error{s.err} }
