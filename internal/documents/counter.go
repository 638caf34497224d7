// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import "fmt"

// counter counts what a JSON document makes Go's decoder allocate: objects, the elements of
// arrays, and the members of objects. An element that is no object takes the memory of one, be it null or
// of the wrong type. The zero value is ready. Of what is no JSON it counts anything, since
// the decoder refuses that before it allocates.
type counter struct {
	objects int // also arrays and their elements
	members int // of objects

	open    []byte // brackets
	element bool   // an element of an array may begin
	text    bool   // within a string
	escaped bool   // behind a backslash in it
}

// add counts the next part of the document.
func (c *counter) add(data []byte) {
	for _, b := range data {
		if c.text {
			c.text, c.escaped = b != '"' || c.escaped, b == '\\' && !c.escaped
			continue
		}
		switch b {
		case ' ', '\t', '\r', '\n':
		case ':':
			c.members++
		case ']', '}':
			c.open, c.element = c.open[:max(len(c.open)-1, 0)], false
		case ',':
			c.element = len(c.open) > 0 && c.open[len(c.open)-1] == '['
		case '{', '[':
			c.objects++
			c.open, c.element = append(c.open, b), b == '['
		default: // of a name, or of a value that is neither object nor array
			if c.element {
				c.objects++
			}
			c.element, c.text = false, b == '"'
		}
	}
}

// err returns an error, which is ErrInvalid, once there is too much.
func (c *counter) err() error { return c.within(maxObjects, maxMembers) }

// within is err for other bounds.
func (c *counter) within(objects, members int) error {
	switch {
	case c.objects > objects:
		return invalid{fmt.Errorf("it is a document of more than %d objects and elements, which are not allowed", objects)}
	case c.members > members:
		return invalid{fmt.Errorf("it is a document of more than %d members of objects, which are not allowed", members)}
	}
	return nil
}
