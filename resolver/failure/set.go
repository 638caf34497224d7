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

func bit(c Class) Set {
	switch c {
	case Unreachable:
		return 1 << 0
	case Unavailable:
		return 1 << 1
	case RateLimited:
		return 1 << 2
	case NotFound:
		return 1 << 3
	case Unauthorized:
		return 1 << 4
	case Forbidden:
		return 1 << 5
	case Invalid:
		return 1 << 6
	}
	return 0 // None, and what is no class
}
