// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// nameServer has all names stand for these addresses, in that order. The test runs beside no other.
func nameServer(t *testing.T, addresses ...[4]byte) {
	t.Helper()
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for buf := make([]byte, 1500); ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				for _, a := range addresses {
					header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a}})
				}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(packed, from)
			}
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Close()
	})
}

// swallowAt has a port of an address of the loopback take no connection, and refuse none.
func swallowAt(t *testing.T, ip [4]byte, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: ip}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", net.IP(ip[:]), port), 50*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("it takes connections")
}

// A host with two addresses of which the first swallows packets is asked at the other one, and is in no trouble: as the
// only one, and as a mirror, whose connections have a second.
func TestHostWithADeadAddress(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(r) {
			serveManifest(w, r)
		}
	})
	port := server.Listener.Addr().(*net.TCPAddr).Port
	swallowAt(t, [4]byte{127, 0, 0, 2}, port)
	nameServer(t, [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 1})
	url, name := fmt.Sprintf("http://two.test:%d", port), fmt.Sprintf("two.test:%d", port)
	origin, _ := serve(t, serveManifest)
	for what, hosts := range map[string][]string{"alone": {url}, "mirror": {url, origin.URL}} {
		r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(hosts...))}})
		for range 2 {
			if found, err := once(t.Context(), r, Query{}, 5*time.Second); err != nil || found.Host != name || len(r.Troubled()) > 0 {
				t.Errorf("%s: by %q, %v; in trouble are %v", what, found.Host, err, r.Troubled())
			}
		}
	}
}

// A name server that needs longer for an answer than a mirror has for its connection, as where the one that is asked
// first is dead, has the mirror passed over once: it is asked at what the look-up has found.
func TestMirrorWhoseNameIsLookedUpSlowly(t *testing.T) {
	mirror := resolvertest.New(t, resolvertest.WithTLS())
	if _, err := mirror.Push(t.Context(), strings.TrimPrefix(imageRef, registryName+"/"), resolvertest.Image(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	ca, err := mirror.CAFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nameServer(t, [4]byte{127, 0, 0, 1})
	fast := net.DefaultResolver.Dial
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(3 * time.Second):
			return fast(ctx, network, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	name := registryName + mirror.Host()[strings.LastIndex(mirror.Host(), ":"):]
	origin, _ := serve(t, serveManifest)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain("https://"+name, origin.URL)+fmt.Sprintf("ca = %q\n", ca))}})
	var by []string
	for began := time.Now(); time.Since(began) < 30*time.Second && !slices.Contains(by, name); time.Sleep(time.Second) {
		found, err := once(t.Context(), r, Query{}, 5*time.Second)
		if err != nil {
			t.Error(err)
		}
		by = append(by, found.Host)
	}
	if by[0] == name || by[len(by)-1] != name || len(r.Troubled()) > 0 {
		t.Errorf("asked are %v; in trouble are %v", by, r.Troubled())
	}
}
