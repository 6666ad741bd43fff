// Package video is the workload video: several videos play at the same time, each on a TCP connection that delivers its
// bytes at the rate at which they are shown.
//
// The source container has the videos, and sends each at its own rate, in messages of 1370 bytes (paper 004, section
// V.B.6); the sink plays them. Lengths and rates are drawn anew for each trial, the same in all stacks for a trial.
// Rates are scaled so that a video has 3 GB an hour on average. A video that ends is followed by the next draw.
//
// A player waits for a buffer and then shows what has arrived, in real time. If the next part has not arrived, the
// video stands still until there is a buffer again. The buffer is measured in time of video, so that the rate of a
// video does not affect when it begins. Playing begins anew with each trial.
//
// The paper from which the distributions should come, Abhari and Soraya, "Workload generation for YouTube" (Multimedia
// Tools and Applications 46(1), 2010), was not available. The numbers here are derived from other figures of those
// years: see the constants, each with its source.
package video
