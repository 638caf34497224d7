// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import "time"

// Harbor is Harbor on one machine of 16 cores and 16 GB: in the project's own measurements
// (github.com/goharbor/perf, wiki, Harbor 2.5.0, 500 clients at once) it answers 724
// requests a second for an artifact by its tag, and 901 for /v2/. Its tokens last 30
// minutes by default, its line is one of 10 Gbit/s.
func Harbor() Profile {
	return Profile{
		Name: "Harbor", RTT: 2 * time.Millisecond, Service: 10 * time.Millisecond,
		Rate: 700, Queue: 10 * time.Second, Egress: 10e9 / 8, TokenTTL: 30 * time.Minute,
	}
}

// ECR is a private registry of Amazon ECR with its default quotas of an account in one
// region: 2,000 BatchGetImage a second, which HEAD and GET of a manifest count as, and
// 3,000 GetDownloadUrlForLayer (docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html).
// It takes Basic authentication.
func ECR() Profile {
	return Profile{
		Name: "ECR", RTT: 5 * time.Millisecond, Service: 20 * time.Millisecond,
		Rate: 20000, Queue: 10 * time.Second, Egress: 100e9 / 8,
		Limits: []Limit{
			{Of: []kind{headKind, manifestKind}, Requests: 2000, Window: time.Second},
			{Of: []kind{blobKind}, Requests: 3000, Window: time.Second},
		},
	}
}

// DockerHub is Docker Hub for callers without an account: 100 pulls, which are GETs of
// manifests and no HEADs, in 6 hours for each address, and besides an abuse limit of
// "thousands of requests per minute" for each address, 3,000 here
// (docs.docker.com/docker-hub/usage). Its tokens last 5 minutes.
func DockerHub() Profile {
	return Profile{
		Name: "Docker Hub", RTT: 40 * time.Millisecond, Service: 20 * time.Millisecond,
		Rate: 100000, Queue: 10 * time.Second, Egress: 1e12 / 8, TokenTTL: 5 * time.Minute,
		Limits: []Limit{
			{Of: []kind{manifestKind}, PerClient: true, Requests: 100, Window: 6 * time.Hour},
			{Of: []kind{probeKind, tokenKind, headKind, manifestKind, blobKind}, PerClient: true, Requests: 3000, Window: time.Minute},
		},
	}
}
