// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool keeps the connections to a registry host, and decides which request goes
// over which of them.
//
// Checks, tokens, manifests, configs and small layers share one HTTP/2 connection where
// the host speaks it (RFC 9113), and some HTTP/1.1 connections where it does not.
// Large layers have HTTP/1.1 connections of their own beside HTTP/2: one TCP connection
// is slower than several, and would hold up the rest.
//
// A connection never makes an error that HTTP/1.1 would not have had: a request that
// HTTP/2 fails is sent again with HTTP/1.1, which the host is asked with for a while.
//
// A connection that has died silently is found out by asking on another: see second. One whose other end fails is left:
// see forsake.
//
// The connections to each address are a lane of their own, so that a redirect or a token
// server never decides anything about the host that has named it.
package pool
