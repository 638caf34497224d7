// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

// FileName is the name of the file that configures the hosts of its directory.
const FileName = fileName

// Entry is what a hosts.toml says of one host.
type Entry struct {
	// URL is the host as the file spells it; "" for what stands outside of any
	// host's table and is about the registry itself, where the file names no server.
	URL string
	// Mirror says that it is the host of a [host] table.
	Mirror bool
	// Key is the path of the host in the file, and At its place; zero where
	// nothing names it.
	Key string
	At  tomlfile.Position
	// SkipVerify says that the certificate is not looked at.
	SkipVerify bool
	// Files are the certificates and keys that the entry names.
	Files []string
}

// CheckFile reads a hosts.toml as the daemon does, and lists its hosts that are asked, the
// registry itself first. The error lists all problems, each a [*tomlfile.Error].
func CheckFile(file string, data []byte) ([]Entry, error) {
	c := checker{file: file}
	if len(data) == 0 {
		return nil, nil
	}
	if err := c.check(data); err != nil {
		return nil, err
	}
	entry := func(url string, e hostEntry, keys ...string) Entry {
		key := tomlfile.Path(keys...)
		return Entry{
			URL: url, Mirror: len(keys) > 1, Key: key, At: c.positions[key],
			SkipVerify: e.SkipVerify != nil && *e.SkipVerify,
			Files:      append(stringsIn(e.CA), stringsIn(e.Client)...),
		}
	}
	entries := []Entry{entry(string(c.hosts.Server), c.hosts.hostEntry, "server")}
	asked := tables(data)
	for url, e := range c.hosts.Hosts {
		if slices.Contains(asked, url) {
			entries = append(entries, entry(url, e, "host", url))
		}
	}
	slices.SortFunc(entries[1:], func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return entries, nil
}

// CheckDir returns why the daemon cannot use a host directory, with the certificates and keys that are in
// it, or that its hosts.toml names; nil where it can.
func CheckDir(dir string) error {
	_, err := usable(dir)
	return err
}

// knownKeys are those of a hosts.toml, at any place in it.
var knownKeys = []string{"server", "host", "capabilities", "ca", "client", "skip_verify", "header", "override_path", "dial_timeout"}

// tables lists the hosts of a hosts.toml that have a table of their own, [host."…"] with host in
// lower case: containerd looks for these, and asks no host that is written in another way.
func tables(data []byte) (hosts []string) {
	for _, path := range tomlfile.Tables(data) {
		if len(path) > 1 && path[0] == "host" {
			hosts = append(hosts, path[1])
		}
	}
	return hosts
}

// UnknownKeys lists the keys of a hosts.toml, and the hosts, that containerd, and the daemon, pass
// over without a word.
func UnknownKeys(file string, data []byte) (unknown []*tomlfile.Error) {
	unknown = hostsWithoutTable(file, data)
	joined, ok := tomlfile.Decode(file, data, &hostsFile{}, true).(interface{ Unwrap() []error })
	if !ok {
		return unknown
	}
	for _, err := range joined.Unwrap() {
		e, ok := errors.AsType[*tomlfile.Error](err)
		if !ok || e.Kind != tomlfile.UnknownKey {
			continue
		}
		name := e.Key[strings.LastIndexByte(e.Key, '.')+1:]
		if !slices.ContainsFunc(knownKeys, func(key string) bool { return strings.EqualFold(key, name) }) {
			unknown = append(unknown, e)
		}
	}
	return unknown
}

// hostsWithoutTable lists the hosts of a hosts.toml that are not among its [tables].
func hostsWithoutTable(file string, data []byte) (without []*tomlfile.Error) {
	var f hostsFile
	if tomlfile.Decode(file, data, &f, false) != nil {
		return nil // it is not taken, and its mistakes are told
	}
	positions, _ := tomlfile.Positions(data)
	asked := tables(data)
	for _, host := range slices.Sorted(maps.Keys(f.Hosts)) {
		if slices.Contains(asked, host) {
			continue
		}
		path := tomlfile.Path("host", host)
		for other := range positions { // go-toml reads Host, too
			if len(other) == len(path) && strings.EqualFold(other[:4], "host") && other[4:] == path[4:] {
				path = other
				break
			}
		}
		without = append(without, &tomlfile.Error{
			File: file, Line: positions[path].Line, Column: positions[path].Column, Key: path, Kind: tomlfile.UnknownKey,
			Message: `a host needs a table of its own, as [host."https://mirror.example.com"]`,
		})
	}
	return without
}

// RepeatsServer lists the tables of a hosts.toml that name the registry itself. containerd
// asks the registry as the last host in any case, by what stands above all tables. So such
// a table has it asked twice, and its ca, client, headers and skip_verify count for the
// first time alone: the failure that is left is that of the second.
func RepeatsServer(file string, data []byte) (repeated []*tomlfile.Error) {
	entries, err := CheckFile(file, data)
	if err != nil || len(entries) == 0 {
		return nil
	}
	server := entries[0].URL
	if server == "" {
		server = registryOf(filepath.Base(filepath.Dir(file)))
	}
	for _, e := range entries[1:] {
		if endpoint(e.URL) == endpoint(server) {
			repeated = append(repeated, &tomlfile.Error{
				File: file, Line: e.At.Line, Column: e.At.Column, Key: e.Key,
				Message: "is the registry itself, which is asked once more as the last host, without what this table says: write its settings above all tables instead",
			})
		}
	}
	return repeated
}

// registryOf returns the name of the registry that a host directory is for: containerd looks for that of
// r.test:5000 in r.test_5000_, too.
func registryOf(dir string) string { return withPort.ReplaceAllString(dir, "$1:$2") }

var withPort = regexp.MustCompile(`^(.+)_([0-9]+)_$`)

// endpoint returns the one spelling of a host's URL.
func endpoint(host string) string {
	u, err := url.Parse(withScheme(host))
	if err != nil {
		return host
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v2")
	return u.Scheme + "://" + registryname.Address(u.Scheme, u.Host) + path
}
