// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

// Set is a set of classes. It is a plain value that == compares; the zero value
// is the empty set. None is in no set.
type Set uint8

// SetOf returns the set of the given classes. None is left out.
func SetOf(classes ...Class) (s Set) {
	for _, c := range classes {
		s |= bit(c)
	}
	return s
}

// Has reports whether the class is in the set.
func (s Set) Has(c Class) bool { return s&bit(c) != 0 }

// Empty reports whether no class is in the set.
func (s Set) Empty() bool { return s == 0 }

// With returns the set with the class, or without it.
func (s Set) With(c Class, in bool) Set {
	if in {
		return s | bit(c)
	}
	return s &^ bit(c)
}

func bit(c Class) Set {
	i := c.index()
	if i < 0 {
		return 0
	}
	return 1 << i
}
