// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// twoPaths are the hosts of a configuration with two paths to the registry, of which the first begins
// with /v2/first, and other hosts behind these.
func (n *fakeNet) twoPaths(others ...string) Options {
	list := [][2]string{{registryName, "/v2/first"}, {registryName, "/v2"}}
	for _, other := range others {
		list = append(list, [2]string{other, "/v2"})
	}
	return Options{Hosts: func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) (all []docker.RegistryHost, _ error) {
			for _, h := range list {
				all = append(all, docker.RegistryHost{
					Client: &http.Client{Transport: roundTrip(n.roundTrip)}, Authorizer: docker.NewDockerAuthorizer(),
					Scheme: "http", Host: h[0], Path: h[1], Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
				})
			}
			return all, nil
		}
	}}
}

// Of two paths to the registry one is in trouble, the other answers 404 or 429: that is an answer of the
// registry. It counts also once the one in trouble has been asked all the same.
func TestAnswerOfOnePathWhileTheOtherIsInTrouble(t *testing.T) {
	for code, class := range map[int]failure.Class{404: failure.NotFound, 429: failure.RateLimited} {
		for order, others := range map[Order][]string{OriginThenMirrors: {mirrorName}, ListedOrder: nil} {
			var n fakeNet
			n.set(registryName, func(req *http.Request) (*http.Response, error) {
				if strings.HasPrefix(req.URL.Path, "/v2/first") {
					return answering(http.StatusServiceUnavailable)(req)
				}
				return answering(code, "Retry-After", "100")(req)
			})
			n.set(mirrorName, fine)
			r := newResolver(t, n.twoPaths(others...))
			key := openAt(t, r, Query{}).(*session).hosts[0].Key()
			for _, troubled := range []bool{false, true} {
				if troubled {
					trouble(t, r, key, unavailable)
				}
				n.asked()
				found, err := once(t.Context(), r, Query{Order: order}, 5*time.Second)
				asked := n.asked()
				if err == nil {
					t.Errorf("%d, order %d, in trouble: %v: answered by %s in the place of the registry (%s), asked %v", code, order, troubled, found.Host, found.OriginFailed, asked)
				} else if e, ok := errors.AsType[*Error](err); !ok || e.Class != class || slices.Contains(asked, "HEAD "+mirrorName) {
					t.Errorf("%d, order %d, in trouble: %v: %v, asked %v", code, order, troubled, err, asked)
				}
			}
		}
	}
}

// In a pull, too, the registry has answered where one of the paths to it has, whichever is asked last.
func TestAnswerOfOnePathInAPull(t *testing.T) {
	for _, first := range []bool{true, false} {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Path, "/v2/first") == first {
				return answering(http.StatusNotFound)(req)
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		})
		s := openAt(t, newResolver(t, n.twoPaths()), Query{})
		for mediaType, size := range map[string]int64{ocispec.MediaTypeImageManifest: int64(len(manifest)), ocispec.MediaTypeImageLayer: 100} {
			desc := ocispec.Descriptor{MediaType: mediaType, Digest: manifestDigest, Size: size}
			source := s.Source(desc)
			f, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			rc, err := f.Fetch(t.Context(), desc)
			if err == nil {
				_, err = io.ReadAll(rc)
			}
			if e := source.Failure(err); e == nil || e.Class != failure.NotFound || len(e.Attempts) != 2 {
				t.Errorf("404 by the first path: %v, %s: %v (%v)", first, mediaType, e, err)
			}
		}
	}
}
