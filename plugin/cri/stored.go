// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"reflect"
	"unsafe"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// storedImage is an image as CRI keeps it in memory, as far as CRI ever changes one.
type storedImage struct {
	id         string
	references []string // CRI makes a new slice for each change, and changes none
	pinned     bool
}

// is reports whether CRI has not changed the image since it was other.
func (i storedImage) is(other storedImage) bool {
	return i.id == other.id && i.pinned == other.pinned && len(i.references) > 0 && len(i.references) == len(other.references) &&
		&i.references[0] == &other.references[0]
}

// storedImages returns the function that reads CRI's images from its memory.
// ListImages reads them there too, but then parses all their references each time,
// which takes most of its time. The store is in a field that is not exported, of a type
// that is internal. The error says what is missing when a containerd has no such field.
func storedImages(inner runtime.ImageServiceServer) (func() []storedImage, error) {
	v := reflect.ValueOf(inner)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("the image service is a %T, not a pointer to a struct", inner)
	}
	described, ok := v.Elem().Type().FieldByName("imageStore")
	if !ok || described.Type.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("the image service, a %T, has no pointer imageStore", inner)
	}
	field, err := v.Elem().FieldByIndexErr(described.Index)
	if err != nil {
		return nil, fmt.Errorf("field imageStore of the image service, a %T: %w", inner, err)
	}
	// Reflection calls no method of a field that is not exported. The address is that of
	// a pointer of this very type, which the service does not change.
	store := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() //nolint:gosec // see above
	list := store.MethodByName("List")
	if !list.IsValid() || store.IsNil() {
		return nil, fmt.Errorf("the image service's store, a %s, has no method List", field.Type())
	}
	return listBy(list)
}

// listBy calls a function that returns a slice of structs with the fields of a
// storedImage.
func listBy(list reflect.Value) (func() []storedImage, error) {
	t := list.Type()
	if t.NumIn() != 0 || t.NumOut() != 1 || t.Out(0).Kind() != reflect.Slice || t.Out(0).Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("method List of the image service's store is a %s", t)
	}
	image := t.Out(0).Elem()
	index := func(name string, of reflect.Type) ([]int, error) {
		f, ok := image.FieldByName(name)
		if !ok || f.Type != of || !f.IsExported() || len(f.Index) != 1 {
			return nil, fmt.Errorf("the image service's images, of type %s, have no field %s of type %s", image, name, of)
		}
		return f.Index, nil
	}
	id, err := index("ID", reflect.TypeFor[string]())
	if err != nil {
		return nil, err
	}
	references, err := index("References", reflect.TypeFor[[]string]())
	if err != nil {
		return nil, err
	}
	pinned, err := index("Pinned", reflect.TypeFor[bool]())
	if err != nil {
		return nil, err
	}
	return func() []storedImage {
		all := list.Call(nil)[0]
		images := make([]storedImage, all.Len())
		for i := range images {
			v := all.Index(i)
			images[i] = storedImage{id: v.Field(id[0]).String(), pinned: v.Field(pinned[0]).Bool()}
			if list, ok := v.Field(references[0]).Addr().Interface().(*[]string); ok {
				images[i].references = *list
			}
		}
		return images
	}, nil
}
