// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
)

const (
	section = "version = 3\n[plugins.'io.containerd.image-policy.v1.pullwarden']\nenabled = true\n"
	tuned   = "[plugins.'io.containerd.transfer.v1.local']\nmax_concurrent_unpacks = 4\nconcurrent_layer_fetch_buffer = 8388608\n"
)

// checkTests are folders, and what there is to say about them.
var checkTests = map[string]struct {
	files map[string]string
	want  []string
}{
	"nothing to say": {map[string]string{
		"config.toml":           section + tuned,
		"rules/10.toml":         "[[rule]]\nimages = ['r.test/a/**']\npolicy = 'IfDigestChanged'\nmax_age = '10m'\nmax_stale = '1h'\n[[rule]]\nimages = ['r.test/**']\n",
		"rules/20.toml":         "",
		"rules/30.txt":          "no rules",
		"rules/..v1/10.toml":    "no rules",
		"certs.d/r/hosts.toml":  "server = 'https://r.test'\n[host.'http://localhost:5000']\n[host.'http://127.0.0.1']\n",
		"certs.d/r2/hosts.toml": "[host.'https://m.test']\nca = '/on/the/node.pem'\nCapabilities = ['pull']\n",
		"tests/a.toml":          "rules = ['../rules']\n[[case]]\nimage = 'nginx'\n[case.expect]\nrule = ''\n",
	}, nil},
	"Docker Hub by its other names": {map[string]string{
		"a.toml": "[[rule]]\nimages = ['index.docker.io/library/**']\npolicy = 'IfDigestChanged'\ncheck_with = 'Manifest'\n" +
			"[[rule]]\nimages = ['registry-1.docker.io/library/nginx']\npolicy = 'IfDigestChanged'\ncheck_with = 'Manifest'\n",
		"b/b.toml": "[[rule]]\nimages = ['docker.io:443/**']\npolicy = 'IfDigestChanged'\ncheck_with = 'Manifest'\n",
		"c/c.toml": "[[rule]]\nimages = ['{docker.io,quay.io}/**', 'docker.io.r.test/**']\npolicy = 'IfDigestChanged'\ncheck_with = 'Manifest'\n",
	}, []string{"PW0161 a.toml:4:1 rule[1].check_with", "PW0101 a.toml:5:3 rule[2] | a.toml#1", "PW0161 b/b.toml:4:1 rule[1].check_with"}},
	"errors of rules": {map[string]string{"a.toml": "[[rule]]\nimages = ['nginx']\npolcy = 'Never'\nmax_age = 5\n[rule.on]\nunreachabel = 'Fail'\n", "b.toml": "[[rule]\n"}, []string{
		"PW0004 a.toml:2:11 rule[1].images[1] | docker.io/library/nginx",
		"PW0003 a.toml:3:1 rule[1].polcy | (did you mean policy?): allowed are images, namespaces, policy",
		"PW0004 a.toml:4:1 rule[1].max_age | must be a string",
		"PW0003 a.toml:6:1 rule[1].on.unreachabel | did you mean unreachable?",
		"PW0002 b.toml:1:7 ",
	}},
	"errors of the section": {map[string]string{"config.toml": section + "max_age = 'soon'\ndefault_polcy = 'Never'\nimports = 1\n"}, []string{
		"PW0004 config.toml:4:1 max_age | durations", "PW0003 config.toml:5:1 default_polcy | did you mean default_policy?", "PW0003 config.toml:6:1 imports | allowed are",
	}},
	"errors of hosts.toml": {map[string]string{"r.test/hosts.toml": "[host.'https://user:secret@m.test']\ncapabilities = ['fetch']\n"}, []string{
		"PW0004 r.test/hosts.toml:2:17 host.\"https://m.test\".capabilities[1] | allowed are pull",
	}},
	"a password with a space": {map[string]string{"r.test/hosts.toml": "[host.'https://user:a secret@m.test']\ncapabilities = ['fetch']\n"}, []string{
		"PW0004 r.test/hosts.toml:2:17 host.\"https://m.test\".capabilities[1] | allowed are pull",
	}},
	"files that are missing": {map[string]string{"r.test/hosts.toml": "ca = 'a.pem'\n[host.'https://m.test']\nclient = [['c.pem', 'k.pem']]\n", "r.test/c.pem": ""}, []string{
		"PW0006 r.test/hosts.toml:1:1 ca | a.pem", "PW0006 r.test/hosts.toml:3:1 host.\"https://m.test\".client | k.pem",
	}},
	"cases": {map[string]string{"a.toml": "[[case]]\nimage = 'NGINX'\nexpcet = {}\n"}, []string{
		"PW0004 a.toml:0:0 rules | must name", "PW0004 a.toml:1:3 case[1].expect | says nothing",
		"PW0004 a.toml:2:1 case[1].image | no reference", "PW0003 a.toml:3:1 case[1].expcet | did you mean expect?",
	}},
	"cases among rules": {map[string]string{"a.toml": "[[case]]\nimage = 'nginx'\n", "b.toml": "[[rule]]\nimages = ['**']\n"}, []string{"PW0003 a.toml:1:3 case | allowed is rule"}},
	"rules behind others": {map[string]string{
		"10.toml": "[[rule]]\nimages = ['r.test/a/**']\nnamespaces = ['x-*']\n[[rule]]\nimages = ['r.test/a/b', 'r.test/a/c/*']\nnamespaces = ['x-1']\n",
		"20.toml": "[[rule]]\nimages = ['**']\n[[rule]]\nimages = ['q.test/**']\naccess = 'Any'\n",
	}, []string{"PW0101 10.toml:4:3 rule[2] | 10.toml#1", "PW0101 20.toml:3:3 rule[2] | 20.toml#1 before it matches every image"}},
	"globs without a match": {map[string]string{"a.toml": "[[rule]]\nimages = ['r.test/Team/**']\nnamespaces = ['ok', 'No']\n"}, []string{
		"PW0102 a.toml:2:11 rule[1].images[1] | lower case", "PW0102 a.toml:3:21 rule[1].namespaces[2] | lower case",
	}},
	"directives": {map[string]string{
		"config.toml": section + "max_age = '1h'\nhints = 'Ignore'\n" + tuned,
		"rules/a.toml": `[[rule]]
images = ["r.test/a"]
policy = "IfDigestChanged"
max_stale = "30m"
[[rule]]
images = ["r.test/b"]
max_stale = "2h"
on.not_found = "Fail"
[[rule]]
images = ["r.test/c"]
policy = "IfNotPresent"
max_age = "1m"
access = "Any"
access_ttl = "1h"
[[rule]]
images = ["r.test/d"]
hints = "Allow"
on.forbidden = "UseCached"
[[rule]]
images = ["**"]
access = "Any"
`}, []string{
		"PW0103 rules/a.toml:4:1 rule[1].max_stale | 30m", "PW0105 rules/a.toml:7:1 rule[2].max_stale | Always", "PW0105 rules/a.toml:8:4 rule[2].on.not_found | Always",
		"PW0105 rules/a.toml:12:1 rule[3].max_age | IfNotPresent", "PW0105 rules/a.toml:14:1 rule[3].access_ttl",
		"PW0106 rules/a.toml:18:4 rule[4].on.forbidden | forbidden", "PW0104 rules/a.toml:21:1 rule[5].access | every pod",
	}},
	"starts without a question": {map[string]string{
		"config.toml": section + "hints = 'Tighten'\n" + tuned,
		"rules/a.toml": `[[rule]]
images = ["r.test/a"]
policy = "Never"
govern = "Starts"
[[rule]]
images = ["r.test/b"]
policy = "Never"
govern = "Pulls"
[[rule]]
images = ["r.test/c"]
policy = "Never"
access = "Strict"
govern = "Starts"
[[rule]]
images = ["r.test/d"]
policy = "IfNotPresent"
govern = "Starts"
[[rule]]
images = ["r.test/e"]
govern = "Starts"
`}, []string{"PW0105 rules/a.toml:4:1 rule[1].govern | Never"}},
	"budgets": {map[string]string{
		"config.toml": section + "hints = 'Ignore'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/a']\npolicy = 'Always'\nchecks_per_minute = 6\n[[rule]]\nimages = ['r.test/b']\npolicy = 'IfDigestChanged'\nchecks_per_minute = 6\n" +
			"[[rule]]\nimages = ['**']\npolicy = 'IfNotPresent'\nchecks_per_minute = 0\n",
	}, []string{"PW0105 rules/a.toml:4:1 rule[1].checks_per_minute | Always", "PW0105 rules/a.toml:12:1 rule[3].checks_per_minute | IfNotPresent"}},
	"starts by digest": {map[string]string{
		"config.toml": section + tuned,
		"rules/a.toml": `[[rule]]
images = ["r.test/a", "r.test/b:1", "r.test/c/**:v*"]
access = "Strict"
govern = "Starts"
[[rule]]
images = ["r.test/b", "r.test/d"]
namespaces = ["team-a"]
access = "Strict"
govern = "Starts"
[[rule]]
images = ["r.test/d:1", "r.test/e:1"]
namespaces = ["team-a"]
access = "Strict"
govern = "Starts"
[[rule]]
images = ["r.test/f:1"]
access = "Strict"
[[rule]]
images = ["r.test/c/**"]
access = "Strict"
govern = "Starts"
`}, []string{"PW0130 rules/a.toml:2:23 rule[1].images[2] | \"r.test/b\" would match both", "PW0130 rules/a.toml:11:25 rule[3].images[2] | \"r.test/e\""}},
	"starts by digest in the section": {map[string]string{
		"config.toml":  section + "access = 'Strict'\ngovern = 'Starts'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/a:1', 'r.test/b:1']\n[[rule]]\nimages = ['r.test/b']\ngovern = 'Pulls'\n",
	}, []string{"PW0130 rules/a.toml:2:25 rule[1].images[2] | r.test/b"}},
	"the identity of anybody": {map[string]string{
		"config.toml": section + "access_identity = 'Namespace'\naccess = 'Any'\n" + tuned,
		"rules/a.toml": `[[rule]]
images = ["r.test/a"]
access_identity = "Namespace"
[[rule]]
images = ["r.test/b"]
access_identity = "Credentials"
[[rule]]
images = ["r.test/c"]
access_identity = "Namespace"
access = "Verified"
[[rule]]
images = ["r.test/d"]
access = "Any"
`}, []string{
		"PW0107 config.toml:4:1 access_identity | section", "PW0104 config.toml:5:1 access",
		"PW0107 rules/a.toml:3:1 rule[1].access_identity | no meaning",
	}},
	"manifests that are read": {map[string]string{
		"config.toml": section + "default_policy = 'IfDigestChanged'\n" + tuned,
		"rules/a.toml": `[[rule]]
images = ["docker.io/library/a"]
check_with = "Manifest"
[[rule]]
images = ["docker.io/library/b", "r.test/b"]
check_with = "Manifest"
max_age = "10m"
on.forbidden = "UseCached"
[[rule]]
images = ["r.test/c"]
check_with = "Manifest"
policy = "Never"
hints = "Ignore"
`}, []string{
		"PW0161 rules/a.toml:3:1 rule[1].check_with | Docker Hub", "PW0160 rules/a.toml:8:4 rule[2].on.forbidden | on.forbidden=UseCached(rule a.toml#2)",
		"PW0105 rules/a.toml:11:1 rule[3].check_with | Never",
	}},
	"a deadline that does not count": {map[string]string{
		"config.toml":  section + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/a']\npolicy = 'Always'\npull_deadline = '0s'\n[[rule]]\nimages = ['r.test/b']\npolicy = 'Always'\nhints = 'Tighten'\npull_deadline = '0s'\n[[rule]]\nimages = ['r.test/c']\npolicy = 'IfDigestChanged'\npull_deadline = '0s'\n",
	}, []string{
		"PW0140 rules/a.toml:4:1 rule[1].pull_deadline | IfDigestChanged only",
		"PW0105 rules/a.toml:9:1 rule[2].pull_deadline | the policy is Always",
	}},
	"the section": {map[string]string{"config.toml": section + "access = 'Any'\nmax_age = '1h'\nmax_stale = '1m'\n" + tuned}, []string{
		"PW0104 config.toml:4:1 access", "PW0103 config.toml:6:1 max_stale",
	}},
	"a trial of all": {map[string]string{
		"config.toml":  section + "mode = 'Observe'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/**']\nmode = 'Observe'\n[[rule]]\nimages = ['**']\nmode = 'Enforce'\n",
	}, []string{"PW0306 config.toml:4:1 mode | nothing is enforced"}},
	"a trial of a rule": {map[string]string{
		"config.toml":  section + "mode = 'Enforce'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['**']\nmode = 'Observe'\n",
	}, nil},
	"pins of everything": {map[string]string{
		"config.toml":  section + "pin = true\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/**']\npin = true\n[[rule]]\nimages = ['**']\npin = true\n",
	}, []string{"PW0151 config.toml:4:1 pin | pin_limit", "PW0151 rules/a.toml:6:1 rule[2].pin | pin_limit"}},
	"pins within a limit": {map[string]string{
		"config.toml":  section + "pin_limit = '20GiB'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['r.test/**']\npin = false\n[[rule]]\nimages = ['**']\npin = true\n",
	}, nil},
	"a limit of no pins": {map[string]string{
		"config.toml":  section + "pin_limit = '20GiB'\n" + tuned,
		"rules/a.toml": "[[rule]]\nimages = ['**']\n",
	}, []string{"PW0307 config.toml:4:1 pin_limit | pin = true"}},
	"pins of nothing": {map[string]string{
		"rules/a.toml": "[[rule]]\nimages = ['r.test/a']\npolicy = 'Never'\nhints = 'Ignore'\npin = true\n[[rule]]\nimages = ['r.test/b']\npolicy = 'Never'\npin = true\n",
	}, []string{"PW0152 rules/a.toml:5:1 rule[1].pin | imported"}},
	"a limit in other units": {map[string]string{"config.toml": section + "pin_limit = '20GB'\n" + tuned}, []string{"PW0004 config.toml:4:1 pin_limit | 20GiB"}},
	"hosts": {map[string]string{"r.test/hosts.toml": "server = 'http://r.test'\n[host.'http://10.0.0.1:5000']\nskip_verify = true\ncapability = ['pull']\n"}, []string{
		"PW0201 r.test/hosts.toml:1:1 server | https", "PW0201 r.test/hosts.toml:2:7 host.\"http://10.0.0.1:5000\" | https",
		"PW0202 r.test/hosts.toml:3:1 host.\"http://10.0.0.1:5000\".skip_verify", "PW0203 r.test/hosts.toml:4:1 host.\"http://10.0.0.1:5000\".capability | did you mean capabilities?",
	}},
	"hosts that are not asked": {map[string]string{"r.test/hosts.toml": "host.'http://a.test'.skip_verify = true\n[Host.'https://b.test']\n[host.'https://c.test']\n"}, []string{
		"PW0203 r.test/hosts.toml:1:6 host.\"http://a.test\" | passes it over: a host needs a table of its own", "PW0203 r.test/hosts.toml:2:7 Host.\"https://b.test\" | [host.\"https://mirror.example.com\"]",
	}},
	"the registry twice": {map[string]string{"r.test/hosts.toml": "server = 'https://r.test'\n[host.'https://m.test']\n[host.'https://r.test']\nca = 'ca.pem'\n", "r.test/ca.pem": ""}, []string{
		"PW0204 r.test/hosts.toml:3:7 host.\"https://r.test\" | is the registry itself",
	}},
	"not enabled": {map[string]string{"a.toml": "version = 3\n"}, []string{"PW0301 a.toml:0:0  | not enabled"}},
	"switched off": {map[string]string{"a.toml": "version = 3\ndisabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.image-policy.v1.pullwarden']\n" + section[len("version = 3\n"):]}, []string{
		"PW0301 a.toml:2:49 disabled_plugins[2] | disabled_plugins switches pullwarden off",
	}},
	"CRI is switched off, by a file that is imported": {map[string]string{
		"config.toml": "version = 3\nimports = ['docker.toml']\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n" + section[len("version = 3\n"):] + tuned,
		"docker.toml": "version = 1\ndisabled_plugins = ['cri']\n",
	}, []string{"PW0308 docker.toml:2:1 disabled_plugins | switches io.containerd.grpc.v1.cri off: CRI does not start"}},
	"half of CRI is switched off": {map[string]string{
		"config.toml": "version = 3\nimports = ['b.toml']\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n" + section[len("version = 3\n"):] + tuned,
		"b.toml":      "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.images']\n",
	}, []string{"PW0308 b.toml:2:21 disabled_plugins[1] | switches io.containerd.cri.v1.images off"}},
	"containerd's speed": {map[string]string{"a.toml": section, "b.toml": section + tuned[:len(tuned)-len("concurrent_layer_fetch_buffer = 8388608\n")]}, []string{"PW0303 a.toml:0:0  | max_concurrent_unpacks and", "PW0303 b.toml:4:10 plugins.\"io.containerd.transfer.v1.local\" | as one stream: set concurrent_layer_fetch_buffer"}},
	"settings of CRI": {map[string]string{"a.toml": section + `[proxy_plugins.lazy]
type = "snapshot"
address = "/run/lazy.sock"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "lazy"
disable_snapshot_annotations = false
[plugins."io.containerd.cri.v1.images".registry.mirrors."docker.io"]
endpoint = ["https://m.test"]
`}, []string{
		"PW0303 a.toml:7:10 plugins.\"io.containerd.cri.v1.images\" | concurrent_layer_fetch_buffer",
		"PW0302 a.toml:9:1 plugins.\"io.containerd.cri.v1.images\".disable_snapshot_annotations | lazy",
		"PW0304 a.toml:10:49 plugins.\"io.containerd.cri.v1.images\".registry.mirrors | hosts.toml",
	}},
	"settings of an old version": {map[string]string{"a.toml": strings.Replace(section, "version = 3", "version = 2", 1) + `[proxy_plugins.lazy]
type = "snapshot"
address = "/run/lazy.sock"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "lazy"
disable_snapshot_annotations = false
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
[plugins."io.containerd.grpc.v1.cri".registry.auths."https://r.test"]
`}, []string{
		"PW0303 a.toml:7:10 plugins.\"io.containerd.grpc.v1.cri\" | concurrent_layer_fetch_buffer",
		"PW0302 a.toml:9:1 plugins.\"io.containerd.grpc.v1.cri\".containerd.disable_snapshot_annotations | lazy",
		"PW0304 a.toml:11:47 plugins.\"io.containerd.grpc.v1.cri\".registry.auths | hosts.toml",
	}},
	"a slip in the section's name": {map[string]string{
		"a.toml": "version = 3\n[plugins.'io.containerd.image-policy.v1.pullwardn']\nenabled = true\n",
		"b.toml": section + tuned + "[plugins.'io.containerd.grpc.v1.pullwarden']\n[plugins.Pullwarden]\n[pull_warden]\n[plugins.'io.containerd.image-policy.v1.bindir']\n",
	}, []string{
		"PW0301 a.toml:0:0  | not enabled", "PW0305 a.toml:2:10 plugins.\"io.containerd.image-policy.v1.pullwardn\" | did you mean [plugins.\"io.containerd.image-policy.v1.pullwarden\"]?",
		"PW0305 b.toml:7:10 plugins.\"io.containerd.grpc.v1.pullwarden\"", "PW0305 b.toml:8:10 plugins.Pullwarden", "PW0305 b.toml:9:2 pull_warden",
	}},
	"a version to come": {map[string]string{"a.toml": "version = 99\n"}, []string{"PW0004 a.toml:0:0  | version"}},
	"no files":          {map[string]string{"README.md": ""}, []string{"PW0005 .:0:0 "}},
}
