// SPDX-License-Identifier: GPL-3.0-or-later
// A job type of Flamenco, Blender's farm manager: Poise sets up, bakes or measures many shots, one task a shot.
//
// How to install and use it: docs/manual/farm.md. A shot is never split by frames. What a setting means is what the
// option of Poise's command line means to which it leads.

const AS_SAVED = "as saved";

const JOB_TYPE = {
    label: "Poise Shots",
    description: "Bake, solve, set up or measure many shots with Poise, one task a shot",
    settings: [
        { key: "task", type: "string", required: true, default: "bake",
          choices: ["bake", "solve", "targets", "setup", "report"],
          description: "What is done with each shot" },
        { key: "folder", type: "string", subtype: "dir_path", required: true, label: "Shots In",
          eval: "str(abspath('//'))",
          description: "Folder of the shots, on storage that all workers see" },
        { key: "pattern", type: "string", required: true, default: "*.blend", label: "Pattern",
          description: "Which files there are shots: *.blend, or **/*.blend with all folders below" },
        { key: "output_folder", type: "string", subtype: "dir_path", required: true, label: "Results In",
          description: "Folder for files and reports; folders below that of the shots are made here, too" },
        { key: "armature", type: "string", required: false, default: "",
          description: "Name of the armature object; needed where several have effectors" },
        { key: "range", type: "string", required: true, default: AS_SAVED,
          choices: [AS_SAVED, "scene", "preview", "action", "keys", "custom"],
          description: "Frames to bake or to measure" },
        { key: "method", type: "string", required: true, default: AS_SAVED,
          choices: [AS_SAVED, "PRIORITY", "DLS", "SDLS", "PSEUDO_INVERSE", "TRANSPOSE", "SPRINGS",
                    "EXTENDED_JACOBIAN", "BOUNDED", "NONLINEAR"],
          description: "How poses are found" },
        { key: "allow_misses", type: "bool", required: false, default: true, label: "Allow Misses",
          description: "A shot with missed targets is done. Otherwise its task fails; the report is there in any case" },
        { key: "lock_contacts", type: "bool", required: false, default: false, label: "Lock Contacts",
          description: "Let targets of feet and hands rest while they are planted, before a bake" },
        { key: "replace_keys", type: "bool", required: false, default: false, label: "Replace Keys",
          description: "Replace keys that Poise has not written" },
        { key: "redo", type: "bool", required: false, default: false, label: "Redo",
          description: "Also do shots again that are finished" },
        { key: "more_arguments", type: "string", required: false, default: "", label: "More Arguments",
          description: "Further arguments of Poise's command line, such as --step 2 --to new" },
        // Found when the job is submitted, by names from the folder on: the folder has another name on other systems.
        { key: "shots", type: "string", required: true, visible: "web",
          eval: "(lambda folder, pattern: '\\n'.join(file.relative_to(folder).as_posix() " +
                "for file in sorted(folder.glob(pattern)) if file.is_file()))" +
                "(abspath(settings.folder), settings.pattern)",
          description: "The files that were found" },
    ],
};

// Which tasks know an option.
const SOLVES = ["bake", "solve"];
const HAS_RANGE = ["bake", "report"];
const MEASURES = ["bake", "solve", "report"];

function compileJob(job) {
    const settings = job.settings;
    const shots = (settings.shots || "").split("\n").filter((shot) => shot.trim());
    if (!shots.length) {
        throw `There are no shots: nothing in "${settings.folder}" is called like "${settings.pattern}"`;
    }
    const options = optionsOf(settings);
    const taken = new Map();
    for (const shot of shots) {
        const stem = shot.replace(/\.[^./]*$/, "");
        if (taken.has(stem)) {
            throw `The results of "${taken.get(stem)}" and "${shot}" would have one name: rename one of them`;
        }
        taken.set(stem, shot);
        job.addTask(taskOf(settings, shot, stem, options));
    }
}

// The task of one shot: its folder for results, then Blender with Poise's command.
function taskOf(settings, shot, stem, options) {
    const result = path.join(settings.output_folder, stem);
    const results = ["--report", `${result}.json`];
    if (settings.task !== "report") {
        results.push("--output", `${result}.blend`);
    }
    const task = author.Task(shot, "blender");
    task.addCommand(author.Command("make-directory", { path: path.dirname(result) }));
    task.addCommand(author.Command("blender-render", {
        exe: "{blender}",
        exeArgs: "{blenderArgs}",
        argsBefore: [],
        blendfile: path.join(settings.folder, shot),
        args: ["--command", "poise", settings.task].concat(results, options),
    }));
    return task;
}

// The arguments that all shots share.
function optionsOf(settings) {
    const options = [];
    const knows = (tasks) => tasks.indexOf(settings.task) >= 0;
    if (settings.armature) {
        options.push("--armature", settings.armature);
    }
    if (knows(SOLVES) && settings.method !== AS_SAVED) {
        options.push("--method", settings.method);
    }
    if (knows(HAS_RANGE) && settings.range !== AS_SAVED) {
        options.push("--range", settings.range);
    }
    if (knows(MEASURES) && settings.allow_misses) {
        options.push("--allow-misses");
    }
    if (settings.task === "bake" && settings.lock_contacts) {
        options.push("--lock-contacts");
    }
    if (settings.task === "bake" && settings.replace_keys) {
        options.push("--force");
    }
    if (settings.redo) {
        options.push("--redo");
    }
    return options.concat(shellSplit(settings.more_arguments || ""));
}
