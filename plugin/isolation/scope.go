// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Source is all that decides which bytes a pull is served.
type Source struct {
	// Repository begins with its registry, under its one name.
	Repository string
	// Hosts are those that may be asked, in their order.
	Hosts []string
	// Caller stands for the credentials; it must not tell them. A caller that is
	// "" cannot be told apart from others.
	Caller string
	// CredentialHost is the host that the credentials are for; "" for any.
	CredentialHost string
	// RegistryOnly says that the urls of layers are not followed.
	RegistryOnly bool
}

// Scope stands for a Source. It is the same after a restart, and tells nothing of
// the source. The zero value is that of all pulls that have no scope.
type Scope struct {
	registry string // of the source without its repository
	source   string
	// registryOnly is the source's.
	registryOnly bool
}

// Scope returns the scope of the source. A caller that cannot be told apart has a
// new one each time, so that it shares nothing.
func (s Source) Scope() Scope {
	if s.Caller == "" {
		s.Caller = "unknown " + rand.Text()
	}
	registry, _, _ := strings.Cut(s.Repository, "/")
	urls := "follow urls"
	if s.RegistryOnly {
		urls = "registry only"
	}
	fields := append([]string{registry, s.Caller, s.CredentialHost, urls}, s.Hosts...)
	return Scope{registry: sum(fields), source: sum(append(fields, s.Repository)), registryOnly: s.RegistryOnly}
}

// sum returns a hash in which each field counts by itself.
func sum(fields []string) string {
	hash := sha256.New()
	for _, f := range fields {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(f)))
		hash.Write(length[:])
		hash.Write([]byte(f))
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// RegistryOnly reports whether the hosts of the source alone serve pulls of the scope, none by the urls of layers.
func (s Scope) RegistryOnly() bool { return s.registryOnly }

// OfRegistry returns what the scope has in common with those of other repositories of its
// registry.
func (s Scope) OfRegistry() Scope { return Scope{registry: s.registry} }

type scopeKey struct{}

// With returns a context for a pull of that scope.
func With(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeOf returns the scope of the pull that the context is for.
func ScopeOf(ctx context.Context) Scope {
	s, _ := ctx.Value(scopeKey{}).(Scope)
	return s
}
