// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// hostDirs checks the host directories of a tree, as the daemon finds them on the node.
func (c *checker) hostDirs(root string) {
	names, err := hosts.DirsIn(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.unreadable(root, err)
	}
	for _, name := range names {
		dir, before := filepath.Join(root, name), c.Count(Error)
		d := &document{checker: c, file: dir, hosts: true} // in Docker's layout there are certificates alone
		if file := filepath.Join(dir, hosts.FileName); isThere(file) {
			if d = c.open(file); d != nil {
				c.hosts(d, true)
			}
		}
		if c.Count(Error) == before {
			d.certificates(dir)
		}
	}
}

// isThere reports whether there is something at a path, be it a link that leads nowhere.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// certificates reports what the daemon's own loader says of a host directory in whose
// hosts.toml there is no mistake. Of which key it is the loader does not say.
func (d *document) certificates(dir string) {
	if err, ok := errors.AsType[*hosts.FileError](hosts.CheckDir(dir)); ok {
		text := strings.TrimPrefix(err.Err.Error(), err.File+": ")
		d.addAt(MissingFile, text+": "+requestsFail)
	}
}

const requestsFail = "unless a good version was seen before, every request to the registry fails"

// hosts checks a hosts.toml. Paths that it names absolutely are looked at only on
// the node itself.
func (c *checker) hosts(d *document, onNode bool) {
	d.hosts = true
	entries, err := hosts.CheckFile(d.file, d.data)
	d.errors(err)
	for _, e := range hosts.UnknownKeys(d.file, d.data) {
		d.addAt(UnknownHostsKey, "containerd passes it over: "+e.Message, e.Key)
	}
	for _, e := range hosts.RepeatsServer(d.file, d.data) {
		d.addAt(RepeatedServer, e.Message, e.Key)
	}
	for _, e := range entries {
		if e.SkipVerify {
			d.addAt(SkipVerify, "whoever is between the node and the host can say what an image is", e.Key+".skip_verify", "skip_verify")
		}
		if isPlainHTTP(e.URL) {
			d.addAt(PlainHTTP, "credentials and images go over the network in the clear: use https", e.Key)
		}
		for _, file := range e.Files {
			d.missing(e, file, onNode)
		}
	}
}

// missing reports a certificate or key that is named and not there.
func (d *document) missing(e hosts.Entry, file string, onNode bool) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(d.file), path)
	} else if !onNode {
		return
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		d.addAt(MissingFile, path+" is not there: "+requestsFail, e.Key+".ca", e.Key+".client", "ca", "client", e.Key)
	}
}

// isPlainHTTP reports whether a host is asked without TLS, over a network.
func isPlainHTTP(host string) bool {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
