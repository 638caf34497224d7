// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The shapes that containerd's CRI plugin has.
type (
	criService struct {
		runtime.RuntimeServiceServer
		runtime.ImageServiceServer
	}
	criServiceWithTCP struct{ *criService }
)

type stockImages struct {
	runtime.UnimplementedImageServiceServer
}

type stockRuntimes struct {
	runtime.UnimplementedRuntimeServiceServer
}

type (
	decoratedImages   struct{ runtime.ImageServiceServer }
	decoratedRuntimes struct{ runtime.RuntimeServiceServer }
)

func decorate(r runtime.RuntimeServiceServer, i runtime.ImageServiceServer) (runtime.RuntimeServiceServer, runtime.ImageServiceServer) {
	return decoratedRuntimes{r}, decoratedImages{i}
}

func TestWrap(t *testing.T) {
	runtimes, images := &stockRuntimes{}, &stockImages{}
	plain := &criService{runtimes, images}
	withTCP := criServiceWithTCP{&criService{runtimes, images}}
	for instance, service := range map[any]*criService{plain: plain, withTCP: withTCP.criService} {
		if err := Wrap(instance, decorate); err != nil {
			t.Errorf("%T: %v", instance, err)
			continue
		}
		if d, ok := service.ImageServiceServer.(decoratedImages); !ok || d.ImageServiceServer != images {
			t.Errorf("%T: the image service is a %T", instance, service.ImageServiceServer)
		}
		if d, ok := service.RuntimeServiceServer.(decoratedRuntimes); !ok || d.RuntimeServiceServer != runtimes {
			t.Errorf("%T: the runtime service is a %T", instance, service.RuntimeServiceServer)
		}
	}
}

// A containerd that no longer has a place must not run undecorated, nor half
// decorated.
func TestWrapRefuses(t *testing.T) {
	type renamed struct {
		runtime.RuntimeServiceServer
		Images runtime.ImageServiceServer
	}
	type retyped struct {
		runtime.RuntimeServiceServer
		ImageServiceServer string
	}
	halves := &renamed{RuntimeServiceServer: &stockRuntimes{}}
	for instance, want := range map[any]string{
		halves: "no field ImageServiceServer",
		&struct{ runtime.ImageServiceServer }{&stockImages{}}: "no field RuntimeServiceServer",
		&retyped{RuntimeServiceServer: &stockRuntimes{}}:      "a string, cannot be set",
		&criService{ImageServiceServer: &stockImages{}}:       "RuntimeServiceServer of the CRI plugin *cri.criService is nil",
		criService{&stockRuntimes{}, &stockImages{}}:          "cannot be set",
		criServiceWithTCP{}: "nil",
		7:                   "not a struct",
	} {
		err := Wrap(instance, decorate)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", instance, err, want)
		}
	}
	if _, ok := halves.RuntimeServiceServer.(*stockRuntimes); !ok {
		t.Errorf("the runtime service became a %T", halves.RuntimeServiceServer)
	}
	if err := Wrap(nil, nil); err == nil {
		t.Error("nil was accepted")
	}
}
