// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// The tests of this file show why go-toml's own decoder does not do. When one of
// them fails, go-toml has learnt something, and [Decode] may need less.

// strictGoTOML decodes with go-toml alone.
func strictGoTOML(doc string) (basket, error) {
	var b basket
	err := toml.NewDecoder(strings.NewReader(doc)).DisallowUnknownFields().Decode(&b)
	return b, err
}

func TestGoTOMLStopsAtTheFirstBadValue(t *testing.T) {
	const doc = "colour = 1\n[[fruit]]\nnames = 'a'\npeeled = 1\n"
	_, err := strictGoTOML(doc)
	e, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if line, _ := e.Position(); line != 3 || strings.Contains(err.Error(), "peeled") || strings.Contains(err.Error(), "colour") {
		t.Errorf("line %d: %v", line, err)
	}
	if _, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		t.Errorf("unknown keys are reported too: %v", err)
	}
	err = Decode("", []byte(doc), &basket{}, true)
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 3 {
		t.Errorf("%d problems: %v", lines, err)
	}
}

func TestGoTOMLDoesNotAskStringTypes(t *testing.T) {
	const doc = "[[fruit]]\nnames = []\nflavour = 'bitter'\n"
	if got, err := strictGoTOML(doc); err != nil || got.Fruit[0].Flavour != "bitter" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Decode("", []byte(doc), &basket{}, true); err == nil {
		t.Error("no error")
	}
}

func TestGoTOMLLosesThePositionOfText(t *testing.T) {
	const doc = "[[fruit]]\nnames = []\nflavour = 1\n"
	_, err := strictGoTOML(doc)
	if e, ok := errors.AsType[*toml.DecodeError](err); err == nil || ok || !strings.HasPrefix(err.Error(), `"1": allowed are`) {
		t.Errorf("%+v, %v", e, err)
	}
	if e, ok := errors.AsType[*Error](Decode("", []byte(doc), &basket{}, true)); !ok || e.Line != 3 {
		t.Errorf("%+v", e)
	}
}

func TestGoTOMLTakesATableForAnArray(t *testing.T) {
	const doc = "[fruit]\nnames = ['a']\n"
	if got, err := strictGoTOML(doc); err != nil || len(got.Fruit) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Decode("", []byte(doc), &basket{}, true); err == nil {
		t.Error("no error")
	}
}

func TestGoTOMLMatchesOtherKeys(t *testing.T) {
	for _, doc := range []string{"[[FRUIT]]\nnames = []\n", "[[fruit]]\nnames = []\nUntagged = 'x'\n"} {
		if got, err := strictGoTOML(doc); err != nil || len(got.Fruit) != 1 {
			t.Errorf("%q: %+v, %v", doc, got, err)
		}
		if err := Decode("", []byte(doc), &basket{}, true); err == nil {
			t.Errorf("%q: no error", doc)
		}
	}
}

func TestGoTOMLReportsNoElements(t *testing.T) {
	const doc = "[[fruit]]\nnames = []\n[[fruit]]\nnames = []\ntaste = 1\n"
	_, err := strictGoTOML(doc)
	missing, ok := errors.AsType[*toml.StrictMissingError](err)
	if !ok || len(missing.Errors) != 1 {
		t.Fatalf("got %v", err)
	}
	if key := strings.Join(missing.Errors[0].Key(), "."); key != "fruit.taste" || strings.Contains(missing.String(), "names, ") {
		t.Errorf("key %s: %s", key, missing.String())
	}
	e, ok := errors.AsType[*Error](Decode("", []byte(doc), &basket{}, true))
	if !ok || e.Key != "fruit[2].taste" || !strings.Contains(e.Message, "names, ") {
		t.Errorf("%+v", e)
	}
}
